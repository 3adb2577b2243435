#include "lang/graph/score_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/json/json_fields.h"

namespace espalier::lang {
namespace {

constexpr std::array<std::string_view, 3> kKinds{"score", "rerank", "embed"};
constexpr std::array<std::pair<const char*, std::string ScoreOptions::*>, 4> kTexts{
    {{"model", &ScoreOptions::model},
     {"instruct", &ScoreOptions::instruct},
     {"prompt_name", &ScoreOptions::prompt_name},
     {"input_type", &ScoreOptions::input_type}}};
constexpr std::array<std::pair<const char*, std::optional<int> ScoreOptions::*>, 2> kNumbers{
    {{"dimensions", &ScoreOptions::dimensions}, {"top_n", &ScoreOptions::top_n}}};

Result<> read_option(ScoreOptions& to, std::string_view name, const Json& value, const std::string& place) {
  for (const auto& [known, member] : kTexts) {
    if (name != known) continue;
    ESP_TRY(to.*member, as_string(value, place));
    return success();
  }
  for (const auto& [known, member] : kNumbers) {
    if (name != known) continue;
    ESP_TRY(const auto number, as_integer(value, place, {1, 1 << 18}));
    to.*member = static_cast<int>(number);
    return success();
  }
  if (name == "raw_scores") {
    if (!value.is_boolean()) return bad_request(place + " must be true or false", place);
    to.raw_scores = value.get<bool>();
    return success();
  }
  if (name == "backend")
    return bad_request(place + " is of a process and has no form in JSON; model names another model of a server",
                       place);
  return bad_request(place + " is not known", place);
}

}  // namespace

std::string_view name_of(node::Score::Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<node::Score::Kind> score_kind_named(std::string_view name) {
  const auto at = std::ranges::find(kKinds, name);
  if (at == kKinds.end()) return std::nullopt;
  return static_cast<node::Score::Kind>(at - kKinds.begin());
}

Json score_options_to_json(const ScoreOptions& options) {
  Json out = Json::object();
  for (const auto& [name, member] : kTexts)
    if (!(options.*member).empty()) out[name] = options.*member;
  for (const auto& [name, member] : kNumbers)
    if (options.*member) out[name] = *(options.*member);
  if (options.raw_scores) out["raw_scores"] = *options.raw_scores;
  if (options.backend) out["backend"] = options.backend->traits().name;
  return out;
}

Result<ScoreOptions> score_options_from_json(const Json& json, const std::string& place) {
  ScoreOptions options;
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>())
    ESP_CHECK(read_option(options, name, value, fmt::format("{}.{}", place, name)));
  return options;
}

}  // namespace espalier::lang
