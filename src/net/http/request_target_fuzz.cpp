// Any bytes as a request target: what is accepted is normalised (parsing it again changes nothing), and decoding undoes
// encoding.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "net/client/url.h"  // percent_encode
#include "net/http/request_target.h"

namespace {

using namespace espalier::net;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require(percent_decode(percent_encode(bytes)) == bytes);
  if (auto decoded = percent_decode(bytes, true)) require(decoded->size() <= bytes.size());
  valid_host(bytes);
  auto parsed = parse_request_target(bytes, size % 2 == 0 ? Method::get : Method::options);
  if (!parsed.ok()) {
    require(parsed.error().kind == espalier::Error::Kind::bad_request);
    return 0;
  }
  if (parsed->path == "*") return 0;
  std::string again;
  for (const auto& segment : parsed->segments) {
    require(!segment.empty() && segment != "." && segment != ".." && valid_field_value(segment));
    again += "/" + percent_encode(segment);
  }
  char separator = '?';
  for (const auto& [name, value] : parsed->query) {
    again += std::exchange(separator, '&') + percent_encode(name) + "=" + percent_encode(value);
  }
  if (again.empty() || again[0] == '?') again = "/" + again;
  auto second = parse_request_target(again, Method::get);
  require(second.ok() && second->path == parsed->path && second->segments == parsed->segments);
  require(second->query.size() == parsed->query.size());
  return 0;
}
