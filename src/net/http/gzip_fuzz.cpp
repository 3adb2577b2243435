// Any bytes as a gzipped body, in slices and pieces: no slice is longer than asked for, the end is always reached, and
// our own output comes back.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "net/http/gzip.h"

namespace {

using namespace espalier::net;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  accepts_gzip(bytes);
  GzipReader reader;
  std::string out;
  auto state = GzipReader::State::has_more;
  std::size_t limit = 1 << 20;
  for (std::string_view rest = bytes; state == GzipReader::State::has_more && out.size() < limit;) {
    std::size_t before = out.size();
    state = reader.read(rest, out, 1000);
    require(out.size() - before <= 1000);
  }
  if (auto packed = gzip(bytes)) {
    GzipReader second;
    std::string back;
    std::string_view input = *packed;
    while ((state = second.read(input, back, 100)) == GzipReader::State::has_more) {
    }
    require(state == GzipReader::State::finished && back == bytes);
  }
  return 0;
}
