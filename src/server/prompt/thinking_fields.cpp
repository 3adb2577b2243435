#include "server/prompt/thinking_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::server {
namespace {

struct Effort {
  std::string_view name;
  bool thinks;
  int budget;  // -1: no limit
};

constexpr Effort kEfforts[] = {{"none", false, 0}, {"minimal", false, 256}, {"low", true, 1024}, {"medium", true, 8192},
                               {"high", true, -1}, {"xhigh", true, -1},     {"max", true, -1}};

const Effort* find_effort(std::string_view name) {
  const auto found = std::ranges::find(kEfforts, name, &Effort::name);
  return found == std::end(kEfforts) ? nullptr : found;
}

void switch_thinking(ThinkingFields& out, bool on) {
  for (const char* name : {"thinking", "enable_thinking"}) out.arguments[name] = on;
  if (!on) out.budget = 0;
}

}  // namespace

Result<> read_effort(ThinkingFields& out, const Json& value, std::string_view place) {
  ESP_TRY(out.effort, as_string(value, place));
  const Effort* effort = find_effort(out.effort);
  if (effort == nullptr) {
    return bad_request(fmt::format("{} is {}; it may be none, minimal, low, medium, high, xhigh or max", place,
                                   in_quotes(out.effort, 40)),
                       std::string(place));
  }
  out.arguments["reasoning_effort"] = out.effort;
  for (const char* name : {"thinking", "enable_thinking"}) out.arguments[name] = effort->thinks;
  return success();
}

Result<> read_thinking_budget(ThinkingFields& out, const Json& value, std::string_view place) {
  if (value == -1) return success();  // no limit, as other servers write it
  ESP_TRY(out.budget, as_int(value, place, {0, 1e9}));
  return success();
}

Result<> read_thinking(ThinkingFields& out, const Json& value, std::string_view place) {
  if (value.is_boolean()) {
    switch_thinking(out, value.get<bool>());
    return success();
  }
  if (!value.is_object())
    return bad_request(fmt::format("{} must be an object: type, budget_tokens", place), std::string(place));
  ESP_TRY(const std::string type, get_string(value, {"type", place}));
  if (type != "enabled" && type != "adaptive" && type != "auto" && type != "disabled") {
    return bad_request(
        fmt::format("{}.type is {}; it may be enabled, adaptive or disabled", place, in_quotes(type, 40)),
        fmt::format("{}.type", place));
  }
  switch_thinking(out, type != "disabled");
  if (const Json* budget = find_field(value, "budget_tokens"); budget != nullptr && type != "disabled")
    return read_thinking_budget(out, *budget, fmt::format("{}.budget_tokens", place));
  return success();
}

Result<> read_reasoning(ThinkingFields& out, const Json& value, std::string_view place) {
  if (!value.is_object())
    return bad_request(fmt::format("{} must be an object: effort, max_tokens, enabled", place), std::string(place));
  if (const Json* effort = find_field(value, "effort"))
    ESP_CHECK(read_effort(out, *effort, fmt::format("{}.effort", place)));
  ESP_TRY(const auto enabled, find_boolean(value, {"enabled", place}));
  if (enabled) switch_thinking(out, *enabled);
  if (const Json* most = find_field(value, "max_tokens"); most != nullptr && enabled.value_or(true))
    return read_thinking_budget(out, *most, fmt::format("{}.max_tokens", place));
  return success();
}

std::optional<int> budget_of_effort(std::string_view name) {
  const Effort* effort = find_effort(name);
  if (effort == nullptr || effort->budget < 0) return std::nullopt;
  return effort->budget;
}

}  // namespace espalier::server
