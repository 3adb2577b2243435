#include "server/admission/browser_guard.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::server {
namespace {

// "name" of "name:8000" and of "[::1]:8000".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') == host.npos ? host.size() : host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_web(std::string_view origin) {
  return origin == "null" || origin.starts_with("http://") || origin.starts_with("https://");
}

bool is_local(std::string_view name) {
  constexpr std::string_view kLocal = "localhost", kBelow = ".localhost";
  if (net::same_ignoring_case(name, kLocal) || name == "[::1]") return true;
  if (name.size() > kBelow.size() && net::same_ignoring_case(name.substr(name.size() - kBelow.size()), kBelow))
    return true;
  return name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos;
}

}  // namespace

bool BrowserGuard::is_foreign(const net::HttpRequest& head) const {
  const std::string_view origin = head.headers.get("origin");
  if (origin.empty()) {
    const std::string_view site = head.headers.get("sec-fetch-site");
    return site == "cross-site" || site == "same-site";
  }
  if (!is_web(origin)) return false;
  for (const std::string& allowed : origins_)
    if (allowed == "*" || net::same_ignoring_case(allowed, origin)) return false;
  const std::size_t scheme = origin.find("://");
  return scheme == origin.npos || !net::same_ignoring_case(origin.substr(scheme + 3), head.headers.get("host"));
}

bool BrowserGuard::knows_host(std::string_view host) const {
  if (host.empty() || is_local(without_port(host))) return true;
  return std::ranges::any_of(hosts_, [&](const std::string& known) {
    return known == "*" || net::same_ignoring_case(known, host) || net::same_ignoring_case(known, without_port(host));
  });
}

std::optional<net::HttpError> BrowserGuard::check(const net::HttpRequest& head, bool acts) const {
  const std::string_view host = head.headers.get("host");
  if (local_only_ && !knows_host(host)) {
    return net::HttpError{403,
                          fmt::format("this server answers only to names of this machine, not to \"{}\"; give "
                                      "--allowed-host, or --api-key",
                                      host.substr(0, 100)),
                          "unknown_host",
                          {},
                          0};
  }
  const bool reads = head.method == net::Method::get || head.method == net::Method::head;
  if ((reads && !acts) || head.method == net::Method::options || !is_foreign(head)) return std::nullopt;
  return net::HttpError{
      403, "a web page of another origin asked for this; --cors-origin allows it", "foreign_origin", {}, 0};
}

}  // namespace espalier::server
