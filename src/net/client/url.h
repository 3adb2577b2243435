// url.h: the parts of an http(s) URL that decide where a request goes and who may see its credentials.
// Fails: nullopt / Error for anything that is not an absolute http or https URL with a host.
#pragma once

#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::net {

// An http or https URL in its parts.
struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case; an IPv6 address keeps its brackets
  int port = 0;
  std::string path;   // begins with "/"; without query and fragment
  std::string query;  // with its "?", or empty

  std::string origin() const;     // "https://host:8443"; the port only when it is not the scheme's own
  std::string printable() const;  // origin and path: no user, query or fragment, fit for messages and logs
  std::string full() const;       // origin, path and query
};

// User and password in a URL are refused: they would end up in logs and on other hosts.
Result<Url> parse_url(std::string_view text);

// The absolute URL that `reference` (a Location header) means in an answer from `base`.
Result<Url> resolve_url(const Url& base, std::string_view reference);

// Percent-encodes everything but unreserved characters and those in `keep` ("/" for a path).
std::string percent_encode(std::string_view text, std::string_view keep = "");

}  // namespace espalier::net
