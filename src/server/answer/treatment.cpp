#include "server/answer/treatment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

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

namespace {

// "[::1]" -> "::1"; what can be no host's name or address is none.
std::string host_of(std::string text) {
  constexpr std::size_t kMostHostBytes = 253;
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  const bool is_name = std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  return is_name && text.size() <= kMostHostBytes ? text : std::string();
}

}  // namespace

std::optional<Handoff> handoff_of(const Call& call, std::size_t i) {
  if (!call.model || !call.model->engine) return std::nullopt;
  const std::string& mode = call.model->engine->options().disaggregation_mode;
  if (mode == "null" || !call.body.is_object()) return std::nullopt;
  const auto field = [&](std::string_view name) -> const Json* {
    const Json* value = find_field(call.body, name);
    if (value == nullptr || !value->is_array()) return value;
    return i < value->size() ? &(*value)[i] : nullptr;
  };
  const Json *const host = field("bootstrap_host"), *const port = field("bootstrap_port"),
                    *const room = field("bootstrap_room");
  if (room == nullptr || !room->is_number_integer()) return std::nullopt;
  Handoff handoff;
  handoff.part = mode == "prefill" ? Handoff::Part::prompt : Handoff::Part::output;
  handoff.room = room->get<std::uint64_t>();
  if (host != nullptr && host->is_string()) handoff.host = host_of(host->get<std::string>());
  const std::int64_t number = port != nullptr && port->is_number_integer() ? port->get<std::int64_t>() : 0;
  if (number > 0 && number <= UINT16_MAX) handoff.port = static_cast<int>(number);
  return handoff;
}

}  // namespace espalier::server
