// Any bytes as a PNG file: a picture of the size that is told and within the limits, or a sentence.
#include "image/decode/fuzz_decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  espalier::pictures::fuzz_decode(espalier::pictures::PictureFormat::png, {data, size});
  return 0;
}
