#include "server/cache_events/cache_event_config.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "server/fields/field_table.h"

namespace espalier::server {
namespace {

constexpr std::string_view kFlag = "kv-events-config";
using C = CacheEventConfig;

Result<> read_encoding(C& out, const Json& value, std::string_view place) {
  if (value != "array" && value != "map")
    return bad_request(fmt::format("{} must be array or map", place), std::string(place));
  out.named_fields = value == "map";
  return success();
}

Result<> read_nothing(C&, const Json&, std::string_view) {
  return success();
}

constexpr FieldRow<C> kRows[] = {
    {"endpoint", &C::endpoint, "tcp://*:5557", ""},
    {"replay_endpoint", &C::replay_endpoint, "none", ""},
    {"topic", &C::topic, "empty", ""},
    {"buffer_steps", &C::buffer_steps, "10000", "", {1, 1e7}},
    {"hwm", &C::hwm, "100000", "", {0, 1e9}},
    {"max_queue_size", &C::max_queue_size, "100000", "", {1, 1e7}},
    {"encoding", &read_encoding, "array", ""},
    {"publisher", &read_nothing, "zmq", ""},
    {"enable_kv_cache_events", &read_nothing, "true", ""},
};

}  // namespace

Result<std::optional<CacheEventConfig>> parse_cache_event_config(std::string_view json) {
  if (json.empty()) return std::optional<CacheEventConfig>();
  const auto parsed = parse_json(json);
  if (!parsed.ok() || !parsed->is_object())
    return bad_request(fmt::format("--{} must be a JSON object", kFlag), std::string(kFlag));
  for (const auto& [name, value] : parsed->get_ref<const Json::object_t&>()) {
    if (std::ranges::find(kRows, name, &FieldRow<C>::name) == std::end(kRows))
      return bad_request(fmt::format("--{} has the member {}, which is not known", kFlag, in_quotes(name, 40)),
                         std::string(kFlag));
  }
  ESP_TRY(const auto publisher, find_string(*parsed, {"publisher", kFlag}));
  if (publisher && *publisher != "zmq" && *publisher != "null")
    return bad_request(fmt::format("--{}: publisher may be zmq or null", kFlag), std::string(kFlag));
  ESP_TRY(const auto enabled, find_boolean(*parsed, {"enable_kv_cache_events", kFlag}));
  if (publisher.value_or("zmq") == "null" || !enabled.value_or(true)) return std::optional<CacheEventConfig>();
  CacheEventConfig config;
  ESP_CHECK(read_fields(*parsed, std::span<const FieldRow<C>>(kRows), config, kFlag));
  return std::optional(std::move(config));
}

}  // namespace espalier::server
