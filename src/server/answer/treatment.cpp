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

// Answers to each prompt: sglang-router sends so many entries for a chat.
std::size_t answers_to_each(const Json& body) {
  const Json* sampling = find_field(body, "sampling_params");
  for (const Json* object : {&body, sampling}) {
    const Json* n = object != nullptr && object->is_object() ? find_field(*object, "n") : nullptr;
    if (n != nullptr && n->is_number_unsigned()) return n->get<std::size_t>();
  }
  return 1;
}

// What a field says of prompt i; null: nothing.
Result<const Json*> said_of(const Json& body, std::string_view name, std::size_t i, std::size_t prompts) {
  const Json* value = find_field(body, name);
  if (value == nullptr || !value->is_array()) return value;
  const std::size_t entries = value->size();
  if (prompts != kAnyNumber && entries != prompts && (prompts > 1 || entries != answers_to_each(body)))
    return bad_request(fmt::format("{} has {} entries for {} prompt(s); send one value for all, or one per prompt",
                                   name, entries, prompts),
                       std::string(name));
  return i < entries && !(*value)[i].is_null() ? &(*value)[i] : nullptr;
}

Result<std::optional<std::int64_t>> number_of(const Json& body, std::string_view name, std::size_t i,
                                              std::size_t prompts, std::int64_t most) {
  ESP_TRY(const Json* value, said_of(body, name, i, prompts));
  if (value == nullptr) return std::optional<std::int64_t>();
  ESP_TRY(const std::int64_t number, as_integer(*value, name, {0, most}));
  return std::optional(number);
}

}  // namespace

Result<std::optional<Handoff>> handoff_of(const Call& call, std::size_t i, std::size_t prompts) {
  if (!call.model || !call.model->engine) return std::optional<Handoff>();
  const std::string& mode = call.model->engine->options().disaggregation_mode;
  if (mode == "null" || !call.body.is_object()) return std::optional<Handoff>();
  ESP_TRY(const Json* host, said_of(call.body, "bootstrap_host", i, prompts));
  ESP_TRY(const auto port, number_of(call.body, "bootstrap_port", i, prompts, UINT16_MAX));
  ESP_TRY(const auto room, number_of(call.body, "bootstrap_room", i, prompts, INT64_MAX));
  Handoff handoff;
  if (host != nullptr) {
    ESP_TRY(std::string name, as_string(*host, "bootstrap_host"));
    handoff.host = host_of(std::move(name));
  }
  if (!room) return std::optional<Handoff>();
  handoff.part = mode == "prefill" ? Handoff::Part::prompt : Handoff::Part::output;
  handoff.room = static_cast<std::uint64_t>(*room);
  handoff.port = static_cast<int>(port.value_or(0));
  return std::optional(std::move(handoff));
}

}  // namespace espalier::server
