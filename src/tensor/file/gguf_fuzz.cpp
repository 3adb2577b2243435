// Any bytes as a GGUF file: refused with a sentence that names the file, or everything it declares can be read.
#include <cstdint>
#include <string>

#include "tensor/file/gguf_directory.h"
#include "tensor/file/touch_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = std::as_bytes(std::span(data, size));
  auto directory = read_gguf_directory(file, "f.gguf");
  if (directory.ok()) {
    testing::touch(*directory, file);
  } else {
    testing::require(directory.error().kind == Error::Kind::bad_file &&
                     directory.error().message.starts_with("f.gguf: "));
  }
  return 0;
}
