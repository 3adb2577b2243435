#include "server/answer/treatment.h"

#include <fmt/format.h>

#include <charconv>

namespace espalier::server {

std::string cache_scope(const Service& service, const net::HttpRequest& http, std::string_view salt,
                        std::string_view extra_key) {
  const std::string tenant = service.options.cache_salt_from_key ? KeyRing::tenant(http) : std::string();
  if (salt.empty() && extra_key.empty() && tenant.empty()) return {};
  // Lengths in front: no two different triples give the same name.
  return fmt::format("{}:{}|{}:{}|{}", salt.size(), salt, extra_key.size(), extra_key, tenant);
}

int priority_of(const net::HttpRequest& http, int field) {
  if (field != 0) return field;
  const std::string_view text = http.headers.get("x-priority");
  int priority = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), priority);
  return error == std::errc() && end == text.data() + text.size() ? priority : 0;
}

}  // namespace espalier::server
