// Any bytes as a safetensors file and as an index: refused with a sentence that names the file, or all of it can be
// read.
#include <cstdint>
#include <string>

#include "tensor/file/open_file.h"
#include "tensor/file/safetensors_header.h"
#include "tensor/file/touch_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = std::as_bytes(std::span(data, size));
  auto header = read_safetensors_header(file, "f.safetensors");
  if (header.ok()) {
    testing::touch(header->tensors, file);
  } else {
    testing::require(header.error().kind == Error::Kind::bad_file &&
                     header.error().message.starts_with("f.safetensors: "));
  }
  auto index = read_safetensors_index({reinterpret_cast<const char*>(data), size}, "i.json");
  if (index.ok()) {
    for (const auto& entry : *index) testing::require(is_plain_file_name(entry.file));
  } else {
    testing::require(index.error().kind == Error::Kind::bad_file && index.error().message.starts_with("i.json: "));
  }
  return 0;
}
