// touch_everything.h: for tests and fuzz targets: reads every byte that a reader declared to be there, and checks what
// it promised. With a sanitizer, a wrong range shows; without, a broken promise aborts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tensor/decode.h"
#include "tensor/file/gguf_directory.h"
#include "tensor/file/safetensors_header.h"

namespace espalier::testing {

inline void require(bool promise) {
  if (!promise) std::abort();
}

inline void touch(const std::vector<Tensor>& tensors, std::span<const std::byte> file) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& tensor : tensors) {
    require(stored_bytes(tensor.dtype, tensor.shape) == tensor.data.size());
    require(tensor.elements() == tensor.rows() * tensor.columns());
    if (tensor.data.empty()) continue;
    const auto offset = static_cast<std::uint64_t>(tensor.data.data() - file.data());
    require(tensor.data.data() >= file.data() && offset + tensor.data.size() <= file.size());
    ranges.emplace_back(offset, offset + tensor.data.size());
    if (tensor.data.size() < 1u << 20) decode(tensor);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) require(ranges[i - 1].second <= ranges[i].first);
}

inline void touch(const GgufMetadata& metadata) {
  for (const auto& entry : metadata.entries()) {
    require(metadata.find(entry.key) == &entry);
    shown(entry, 1000);
    const int readable = metadata.get_integer(entry.key).ok() + metadata.get_boolean(entry.key).ok() +
                         metadata.get_string(entry.key).ok() + metadata.get_number(entry.key).ok() +
                         metadata.get_strings(entry.key).ok() + metadata.get_integers(entry.key).ok() +
                         metadata.get_floats(entry.key).ok();
    require(readable <= 2);  // an integer is also a number, nothing else is two things
  }
}

inline void touch(const GgufDirectory& directory, std::span<const std::byte> file) {
  touch(directory.metadata);
  touch(directory.tensors, file);
  for (const auto& tensor : directory.tensors) require(!tensor.data.empty());
}

}  // namespace espalier::testing
