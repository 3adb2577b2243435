// Any bytes as a chunked body: in pieces as whole, and where the reader accepts, a plain one that searches for line
// ends must read the same.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "net/http/chunked_reader.h"

namespace {

using namespace espalier::net;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  std::string body;
  int status = 0;
  bool done = false;
  std::size_t left = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view bytes, std::uint32_t seed, const ParserLimits& limits) {
  std::minstd_rand random(seed);
  ChunkedReader reader(limits);
  Outcome outcome;
  while (!bytes.empty() && !reader.done() && outcome.status == 0) {
    std::size_t n = seed == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 1 + random() % 5);
    auto piece = bytes.substr(0, n);
    if (auto refusal = reader.read(piece, outcome.body)) {
      outcome.status = refusal->status;
      return outcome;  // how much of the input was looked at is nobody's business then
    }
    bytes.remove_prefix(n - piece.size());
  }
  outcome.done = reader.done();
  outcome.left = bytes.size();
  return outcome;
}

// For accepted bodies only, so it checks nothing.
Outcome read_plainly(std::string_view bytes) {
  Outcome outcome;
  outcome.done = true;
  for (;;) {
    auto line = bytes.substr(0, bytes.find("\r\n"));
    bytes.remove_prefix(line.size() + 2);
    auto size = std::strtoull(std::string(line.substr(0, line.find(';'))).c_str(), nullptr, 16);
    if (size == 0) break;
    outcome.body += bytes.substr(0, size);
    bytes.remove_prefix(size + 2);
  }
  while (!bytes.starts_with("\r\n")) bytes.remove_prefix(bytes.find("\r\n") + 2);
  outcome.left = bytes.size() - 2;
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  ParserLimits limits;
  if (data[0] & 1) limits = {64, 96, 3, 40, 6, 8, 24};
  auto whole = read(bytes, 0, limits);
  auto pieces = read(bytes, data[0] | 1u, limits);
  require(whole.body.size() <= limits.body_bytes && whole.status == pieces.status && whole.done == pieces.done);
  require(whole.status != 0 || whole == pieces);
  if (whole.done) require(whole == read_plainly(bytes));
  return 0;
}
