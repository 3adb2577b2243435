#include "net/http/cors.h"

#include <algorithm>

namespace espalier::net {
namespace {

// What a client sent goes back in a header only when it can be nothing but names of headers.
bool field_names(std::string_view list) {
  return !list.empty() && list.size() <= 1024 && std::all_of(list.begin(), list.end(), [](char c) {
    return c == ',' || c == ' ' || valid_field_name(std::string_view(&c, 1));
  });
}

}  // namespace

Cors::Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  any_ = std::erase(origins_, "*") != 0;
}

bool Cors::allowed(std::string_view origin) const {
  return !origin.empty() && (any_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end());
}

std::optional<HttpResponse> Cors::preflight(const HttpRequest& head) const {
  if (head.method != Method::options || !head.headers.has("Access-Control-Request-Method")) return std::nullopt;
  if (!allowed(head.headers.get("Origin"))) return std::nullopt;
  HttpResponse response;
  response.status = 204;
  response.headers.add("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS");
  response.headers.add("Access-Control-Max-Age", "600");
  if (auto wanted = head.headers.get("Access-Control-Request-Headers"); field_names(wanted)) {
    response.headers.add("Access-Control-Allow-Headers", std::string(wanted));
  }
  return response;
}

void Cors::decorate(std::string_view origin, Headers& headers) const {
  if (!enabled()) return;
  headers.add("Vary", "Origin");
  if (!allowed(origin)) return;
  bool listed = std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
  headers.set("Access-Control-Allow-Origin", listed ? std::string(origin) : "*");
  if (listed) headers.set("Access-Control-Allow-Credentials", "true");
  headers.set("Access-Control-Expose-Headers", "x-request-id, retry-after, server-timing");
}

}  // namespace espalier::net
