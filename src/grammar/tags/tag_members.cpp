#include "grammar/tags/tag_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/json/json_fields.h"

namespace espalier::grammar {
namespace {

using MemberNames = std::vector<std::string_view>;

struct TagFormat {
  std::string_view type;
  MemberNames members;
  MemberNames telling;  // a format without a type that has these is one of these: the first such
};

// In the order in which types are told. What several have (elements, content) tells of the commonest.
const std::vector<TagFormat>& tag_formats() {
  static const std::vector<TagFormat> all{
      {"const_string", {"value"}, {"value"}},
      {"json_schema", {"json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"}, {"json_schema"}},
      {"qwen_xml_parameter", {"json_schema"}, {}},
      {"regex", {"pattern"}, {"pattern"}},
      {"grammar", {"grammar"}, {"grammar"}},
      {"tag", {"begin", "content", "end"}, {"begin"}},
      {"triggered_tags", {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, {"triggers"}},
      {"tags_with_separator", {"tags", "separator", "at_least_one", "stop_after_first"}, {"separator"}},
      {"dispatch", {"rules", "loop", "excludes"}, {"rules"}},
      {"any_text", {"excludes", "max_chars", "max_tokens"}, {"excludes"}},
      {"sequence", {"elements"}, {"elements"}},
      {"or", {"elements"}, {}},
      {"repeat", {"min", "max", "content"}, {"min", "max"}},
      {"optional", {"content"}, {"content"}},
      {"plus", {"content"}, {}},
      {"star", {"content"}, {}},
  };
  return all;
}

constexpr std::array<std::string_view, 5> kTokenFormats = {"token", "exclude_token", "any_tokens",
                                                           "token_triggered_tags", "token_dispatch"};

std::string tag_type_names() {
  MemberNames names;
  for (const TagFormat& format : tag_formats()) names.push_back(format.type);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<const TagFormat*> named_format(const Json& type, const std::string& place) {
  if (!type.is_string()) return TagMembers::invalid(place + "/type", "a string");
  const auto& name = type.get_ref<const std::string&>();
  const auto found = std::ranges::find(tag_formats(), name, &TagFormat::type);
  if (found != tag_formats().end()) return &*found;
  if (std::ranges::find(kTokenFormats, name) != kTokenFormats.end()) {
    return TagMembers::unsupported(
        place, fmt::format("the format {} speaks of tokens, not of text, and cannot be enforced; const_string and "
                           "any_text with excludes can",
                           name));
  }
  return bad_request(
      fmt::format("structural tag: {} is no format (at {}); there are {}", in_quotes(name), place, tag_type_names()),
      place, "grammar_invalid");
}

Result<const TagFormat*> told_format(const Json& json, const std::string& place) {
  for (const TagFormat& format : tag_formats()) {
    const auto has = [&](std::string_view name) { return find_field(json, name) != nullptr; };
    if (!format.telling.empty() && std::ranges::all_of(format.telling, has)) return &format;
  }
  return bad_request(fmt::format("structural tag: {} has no type; there are {}", place, tag_type_names()), place,
                     "grammar_invalid");
}

}  // namespace

Error TagMembers::invalid(const std::string& place, std::string_view wanted) {
  return bad_request(fmt::format("structural tag: {} must be {}", place, wanted), place, "grammar_invalid");
}

Error TagMembers::unsupported(const std::string& place, std::string_view why) {
  return {Error::Kind::unsupported, fmt::format("structural tag: {} (at {})", why, place), place, {}};
}

Error TagMembers::inside(Error error, std::string_view what, const std::string& place) {
  error.message = fmt::format("{} (the {} at {})", error.message, what, place);
  error.field = place;
  return error;
}

Result<TagMembers> TagMembers::of_format(const Json& json, std::string place) {
  if (!json.is_object()) return invalid(place, "an object");
  const Json* type = find_field(json, "type");
  ESP_TRY(const TagFormat* format, type != nullptr ? named_format(*type, place) : told_format(json, place));
  const TagMembers members(json, std::move(place), format->type);
  ESP_CHECK(members.check(format->members));
  return members;
}

Result<TagMembers> TagMembers::of_object(const Json& json, std::string place, std::span<const std::string_view> known) {
  if (!json.is_object()) return invalid(place, "an object");
  const TagMembers members(json, std::move(place), "");
  ESP_CHECK(members.check(known));
  return members;
}

Result<> TagMembers::check(std::span<const std::string_view> known) const {
  for (const auto& [name, value] : json_->items()) {
    if (name == "type" || std::ranges::find(known, name) != known.end()) continue;
    const std::string kind = type_.empty() ? "it" : fmt::format("the format {}", type_);
    return bad_request(fmt::format("structural tag: {} has an unknown member {}; {} may have type, {}", place_,
                                   in_quotes(name), kind, fmt::join(known, ", ")),
                       place_of(name), "grammar_invalid");
  }
  return success();
}

std::string TagMembers::place_of(std::string_view name) const {
  std::string place = place_ + "/";
  for (const char c : name) {  // as JSON pointers have it
    if (c == '~')
      place += "~0";
    else if (c == '/')
      place += "~1";
    else
      place += c;
  }
  return place;
}

const Json* TagMembers::find(std::string_view name) const {
  return find_field(*json_, name);
}

Result<const Json*> TagMembers::get(std::string_view name) const {
  const Json* found = find(name);
  if (found != nullptr) return found;
  return bad_request(fmt::format("structural tag: {} has no {}", place_, name), place_, "grammar_invalid");
}

Result<std::string> TagMembers::text(std::string_view name) const {
  ESP_TRY(const Json* found, get(name));
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object()) return unsupported(place_of(name), fmt::format("a token as {}; a string works", name));
  return invalid(place_of(name), "a string");
}

Result<std::vector<std::string>> TagMembers::texts(std::string_view name) const {
  ESP_TRY(const Json* found, get(name));
  if (!found->is_array()) {
    ESP_TRY(std::string one, text(name));
    return std::vector<std::string>{std::move(one)};
  }
  std::vector<std::string> out;
  for (const Json& one : *found)
    if (one.is_string()) out.push_back(one.get<std::string>());
  if (out.empty() || out.size() != found->size()) return invalid(place_of(name), "a string or a list of them");
  return out;
}

Result<std::vector<std::string>> TagMembers::words(std::string_view name) const {
  const Json* found = find(name);
  std::vector<std::string> out;
  if (found == nullptr) return out;
  const auto is_word = [](const Json& one) { return one.is_string() && !one.get_ref<const std::string&>().empty(); };
  if (!found->is_array() || !std::ranges::all_of(*found, is_word))
    return invalid(place_of(name), "a list of strings that are not empty");
  for (const Json& one : *found) out.push_back(one.get<std::string>());
  return out;
}

Result<const Json*> TagMembers::list(std::string_view name, std::string_view of) const {
  ESP_TRY(const Json* found, get(name));
  if (found->is_array() && !found->empty()) return found;
  return invalid(place_of(name), fmt::format("a list of at least one {}", of));
}

Result<bool> TagMembers::flag(std::string_view name, bool otherwise) const {
  const Json* found = find(name);
  if (found == nullptr) return otherwise;
  if (found->is_boolean()) return found->get<bool>();
  return invalid(place_of(name), "true or false");
}

Result<std::optional<std::int64_t>> TagMembers::count(std::string_view name, std::int64_t least) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const Json* found = find(name);
  if (found == nullptr) return std::optional<std::int64_t>();
  const auto value = as_integer(*found, place_of(name), {least, kMost});
  if (value.ok()) return std::optional(*value);
  return invalid(place_of(name), fmt::format("an integer from {} to {}", least, kMost));
}

}  // namespace espalier::grammar
