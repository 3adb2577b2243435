// request_target.h: the request-target of a request line ("/v1/models/a%2Fb?limit=3") taken apart and normalised.
//
// Path: split at '/', then each segment percent-decoded, then "." and ".." resolved (a ".." above the root stays at the
// root) and empty segments dropped, so "//v1/./models/" is "/v1/models". A segment may hold any decoded byte but
// control characters, "/" and ".." included ("a%2F..%2Fb" is one segment): never use one as a file name.
// Threads: pure functions.
// Fails:   bad_request: a broken escape, a NUL or control character, a form that is not origin, absolute or asterisk.
// Source:  RFC 9112 section 3.2, RFC 3986 section 5.2.4.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "net/http/http_types.h"

namespace espalier::net {

// A target in its parts: normalised path, its segments, the query.
struct RequestTarget {
  std::string path;
  std::vector<std::string> segments;
  std::vector<NamedValue> query;
};

Result<RequestTarget> parse_request_target(std::string_view target, Method method);

// nullopt: a '%' without two hex digits. `plus_is_space` as in query strings.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// Whether `host` may be the value of a Host field: empty, or reg-name / IPv4 / [IPv6], with an optional port.
bool valid_host(std::string_view host);

}  // namespace espalier::net
