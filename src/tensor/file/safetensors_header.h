// safetensors_header.h: the JSON head of one safetensors file, and the index of a checkpoint in several.
//
// The format's guarantees are kept as documented: head of at most 100 MB that begins with '{', no duplicate keys,
// ranges inside the file, without holes or overlaps, shape times type equal to length.
// Threads: pure functions; tensors point into `file`.
// Fails:   Error::bad_file that names the file and the tensor.
// Source:  the safetensors format description and its Rust reader.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "tensor/tensor.h"

namespace espalier {

inline constexpr std::uint64_t kSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kSafetensorsIndexBytes = 100'000'000;
inline constexpr std::size_t kSafetensorsDimensions = 8;

// A parsed head: tensors in the order of their bytes, and the file's metadata.
struct SafetensorsHeader {
  std::vector<Tensor> tensors;                                // in the order of their bytes
  std::vector<std::pair<std::string, std::string>> metadata;  // "__metadata__"
};

Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

// One row of an index: a tensor and the file it lies in.
struct IndexedTensor {
  std::string tensor, file;
};

// The "weight_map" of model.safetensors.index.json; every file name in it is a plain one.
Result<std::vector<IndexedTensor>> read_safetensors_index(std::string_view text, const std::string& file_name);

}  // namespace espalier
