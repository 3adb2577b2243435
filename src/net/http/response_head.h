// response_head.h: the bytes before a body, and the framing of a chunked one.
// Threads: pure functions; DateText one thread at a time.
// Fails:   never: a header that would break the framing (a control character, a name that is no token) is left out.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/http_types.h"

namespace espalier::net {

// What the server, not the handler, decides about a response.
struct Framing {
  std::optional<std::uint64_t> content_length;  // of the body, also when HEAD leaves it out; nullopt with `chunked`
  bool chunked = false;
  bool keep_alive = true;
  bool http_1_0 = false;  // says "keep-alive" aloud
  std::string_view date;
  std::string_view request_id;
};

bool status_has_body(int status);  // 1xx, 204 and 304 have none, whatever the handler gave
std::string response_head(int status, const Headers& headers, const Framing& framing);

std::string chunk(std::string_view bytes);  // one chunk; `bytes` must not be empty
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The Date field, made anew once a second.
class DateText {
 public:
  std::string_view now();

 private:
  std::time_t second_ = 0;
  std::string text_;
};

}  // namespace espalier::net
