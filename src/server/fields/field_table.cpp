#include "server/fields/field_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::server {
namespace {

Error wrong_type(std::string_view place, std::string_view wanted, const Json& found) {
  return bad_request(fmt::format("{} must be {}, but is of type {}", place, wanted, type_name(found)),
                     std::string(place));
}

}  // namespace

Result<int> as_int(const Json& value, std::string_view place, FieldRange range) {
  constexpr double least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  const IntegerRange whole{static_cast<std::int64_t>(std::max(range.low, least)),
                           static_cast<std::int64_t>(std::min(range.high, most))};
  ESP_TRY(const std::int64_t number, as_integer(value, place, whole));
  return static_cast<int>(number);
}

Result<bool> as_bool(const Json& value, std::string_view place) {
  if (!value.is_boolean()) return wrong_type(place, "true or false", value);
  return value.get<bool>();
}

Result<std::vector<TokenId>> as_token_ids(const Json& value, std::string_view place) {
  if (!value.is_array()) return wrong_type(place, "a list of token ids", value);
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i].is_null()) continue;  // upstream drops nulls
    auto id = as_int(value[i], place, {0, std::numeric_limits<TokenId>::max()});
    if (!id) {
      return bad_request(fmt::format("{}[{}] must be a token id, an integer of at least 0, but is {}", place, i,
                                     value[i].is_number() ? number_text(value[i]) : type_name(value[i])),
                         std::string(place));
    }
    ids.push_back(*id);
  }
  return ids;
}

Result<std::string> as_short_string(const Json& value, std::string_view place, std::size_t most) {
  ESP_TRY(std::string text, as_string(value, place));
  if (text.size() <= most) return text;
  return bad_request(fmt::format("{} has {} bytes, but at most {} are accepted", place, text.size(), most),
                     std::string(place));
}

Result<std::string> find_short_string(const Json& object, std::string_view name, std::size_t most) {
  const Json* value = find_field(object, name);
  return value == nullptr ? Result<std::string>(std::string()) : as_short_string(*value, name, most);
}

Result<std::vector<std::string>> as_strings(const Json& value, std::string_view place) {
  std::vector<std::string> strings;
  if (value.is_string()) {
    strings.push_back(value.get<std::string>());
    return strings;
  }
  if (!value.is_array()) return wrong_type(place, "a string or a list of strings", value);
  for (const Json& element : value) {
    ESP_TRY(std::string text, as_string(element, fmt::format("{}[{}]", place, strings.size())));
    strings.push_back(std::move(text));
  }
  return strings;
}

Result<> check_adapter_names(const Json& value, std::string_view place) {
  if (!value.is_array()) {
    ESP_CHECK(as_short_string(value, place, kMostSaltBytes));
    return success();
  }
  for (std::size_t i = 0; i < value.size(); ++i)
    if (!value[i].is_null()) ESP_CHECK(as_short_string(value[i], fmt::format("{}[{}]", place, i), kMostSaltBytes));
  return success();
}

bool asks_for_something(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

Result<> check_refused(const Json& object, std::span<const RefusedField> rows, std::string_view parent) {
  for (const auto& row : rows) {
    const Json* value = find_field(object, row.name);
    if (value == nullptr) continue;
    const bool asks = row.even_empty ? !value->is_boolean() || value->get<bool>() : asks_for_something(*value);
    if (!asks) continue;
    const std::string place = JsonField(row.name, parent).path();
    return bad_request(fmt::format("{} {}", place, row.why), place, "unsupported_parameter");
  }
  return success();
}

std::vector<std::string> KnownNames::unknown_in(const Json& object) const {
  std::vector<std::string> unknown;
  if (!object.is_object()) return unknown;
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace espalier::server
