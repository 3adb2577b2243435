// Any bytes as a connection: requests are read off one after the other, once whole and once in pieces. The verdicts
// must agree, and what is accepted must be fit to use.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "net/http/request_parser.h"

namespace {

using namespace espalier::net;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const HttpRequest& request, const std::string& body, const ParserLimits& limits) {
  require(!request.path.empty() && (request.path[0] == '/' || request.path == "*"));
  require(valid_field_value(request.path) && valid_field_name(request.method_name));
  require(request.headers.size() <= limits.header_count && body.size() <= limits.body_bytes);
  for (const auto& [name, value] : request.headers) require(valid_field_name(name) && valid_field_value(value));
  require(!request.headers.has("Content-Length") || !request.headers.has("Transfer-Encoding"));
}

// One line per request, then the status of the refusal if there was one.
std::string read_all(std::string_view bytes, std::uint32_t seed, const ParserLimits& limits) {
  std::minstd_rand random(seed);
  std::string log, pending;
  RequestParser parser(limits);
  while (!bytes.empty() || !pending.empty()) {
    std::size_t n = seed == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 1 + random() % 7);
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    std::string_view input = pending;
    auto refusal = parser.head_done() ? parser.read_body(input) : parser.read_head(input);
    if (!refusal && parser.head_done()) refusal = parser.read_body(input);
    bool moved = input.size() != pending.size();
    pending.erase(0, pending.size() - input.size());
    if (refusal) {
      require(refusal->status >= 400 && refusal->status < 600 && !refusal->message.empty());
      return log + std::to_string(refusal->status);
    }
    if (parser.head_done() && parser.done()) {
      check(parser.request(), parser.body(), limits);
      log += parser.request().path + "|" + parser.body() + "|" + (parser.keep_alive() ? "k\n" : "c\n");
      parser = RequestParser(limits);
    } else if (!moved && bytes.empty()) {
      break;
    }
  }
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  ParserLimits limits;
  if (data[0] & 1) {  // small limits, so that their edges are met
    limits = {64, 96, 6, 48, 8, 8, 24};
  }
  require(read_all(bytes, 0, limits) == read_all(bytes, data[0] | 1u, limits));
  return 0;
}
