#include "base/json/json_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  if (value.is_string()) return "the string " + in_quotes(value.get_ref<const std::string&>(), 40);
  return value.is_number() ? number_text(value) : value.dump();
}

Error wrong(std::string_view place, std::string_view wanted, const Json& found) {
  return bad_request(fmt::format("{} must be {}, but is {}", place, wanted, shown(found)), std::string(place));
}

std::string wanted_integer(IntegerRange range) {
  const IntegerRange any;
  if (range.low == any.low && range.high == any.high) return "an integer";
  if (range.high == any.high) return fmt::format("an integer of at least {}", range.low);
  if (range.low == any.low) return fmt::format("an integer of at most {}", range.high);
  return fmt::format("an integer in {}..{}", range.low, range.high);
}

std::string wanted_number(NumberRange range) {
  const NumberRange any;
  const bool bounded_above = range.high < any.high;
  if (range.low <= any.low) return bounded_above ? fmt::format("a number of at most {}", range.high) : "a number";
  const std::string low = fmt::format("{} {}", range.above_low ? "above" : "of at least", range.low);
  return bounded_above ? fmt::format("a number {} and at most {}", low, range.high) : fmt::format("a number {}", low);
}

// --- one value ---

Result<bool> as_boolean(const Json& value, std::string_view place) {
  if (!value.is_boolean()) return wrong(place, "true or false", value);
  return value.get<bool>();
}

Result<const Json*> as_array(const Json& value, std::string_view place) {
  if (!value.is_array()) return wrong(place, "an array", value);
  return &value;
}

Result<const Json*> as_object(const Json& value, std::string_view place) {
  if (!value.is_object()) return wrong(place, "an object", value);
  return &value;
}

// --- a field of an object ---

Result<const Json*> lookup(const Json& object, const JsonField& field) {
  if (!object.is_object()) {
    const std::string_view place = field.parent.empty() ? "the document" : field.parent;
    return wrong(place, "an object", object);
  }
  return find_field(object, field.name);
}

template <class As>
auto required(const Json& object, const JsonField& field, As&& as) -> decltype(as(object, std::string())) {
  ESP_TRY(const Json* value, lookup(object, field));
  if (value == nullptr) return bad_request(fmt::format("{} is missing", field.path()), field.path());
  return as(*value, field.path());
}

template <class T, class As>
Result<std::optional<T>> optional(const Json& object, const JsonField& field, As&& as) {
  ESP_TRY(const Json* value, lookup(object, field));
  if (value == nullptr) return std::optional<T>();
  ESP_TRY(T found, as(*value, field.path()));
  return std::optional<T>(std::move(found));
}

}  // namespace

std::string JsonField::path() const {
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}

const Json* find_field(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (key == name) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::int64_t integer_or_zero(const Json& object, std::string_view name) {
  const Json* value = find_field(object, name);
  if (value == nullptr) return 0;
  const auto number = as_integer(*value, name);
  return number.ok() ? *number : 0;
}

std::string text_or_empty(const Json& object, std::string_view name) {
  const Json* text = find_field(object, name);
  return text != nullptr && text->is_string() ? text->get<std::string>() : std::string();
}

bool is_numbers(const Json& value) {
  return value.is_number() ||
         (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_numbers));
}

Result<std::int64_t> as_integer(const Json& value, std::string_view place, IntegerRange range) {
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (!value.is_number_integer() || too_large) return wrong(place, wanted_integer(range), value);
  const auto number = value.get<std::int64_t>();
  if (number < range.low || number > range.high) return wrong(place, wanted_integer(range), value);
  return number;
}

Result<double> as_number(const Json& value, std::string_view place, NumberRange range) {
  if (!value.is_number()) return wrong(place, wanted_number(range), value);
  const auto number = value.get<double>();
  const bool inside = number >= range.low && number <= range.high && !(range.above_low && number == range.low);
  if (!inside) return wrong(place, wanted_number(range), value);
  return number;
}

Result<std::string> as_string(const Json& value, std::string_view place) {
  if (!value.is_string()) return wrong(place, "a string", value);
  return value.get<std::string>();
}

Result<std::string> get_string(const Json& object, JsonField field) {
  return required(object, field, as_string);
}
Result<bool> get_boolean(const Json& object, JsonField field) {
  return required(object, field, as_boolean);
}
Result<const Json*> get_array(const Json& object, JsonField field) {
  return required(object, field, as_array);
}
Result<const Json*> get_object(const Json& object, JsonField field) {
  return required(object, field, as_object);
}

Result<std::int64_t> get_integer(const Json& object, JsonField field, IntegerRange range) {
  return required(object, field,
                  [&](const Json& value, const std::string& path) { return as_integer(value, path, range); });
}
Result<double> get_number(const Json& object, JsonField field, NumberRange range) {
  return required(object, field,
                  [&](const Json& value, const std::string& path) { return as_number(value, path, range); });
}

Result<std::optional<std::string>> find_string(const Json& object, JsonField field) {
  return optional<std::string>(object, field, as_string);
}
Result<std::optional<bool>> find_boolean(const Json& object, JsonField field) {
  return optional<bool>(object, field, as_boolean);
}
Result<std::optional<std::int64_t>> find_integer(const Json& object, JsonField field, IntegerRange range) {
  return optional<std::int64_t>(
      object, field, [&](const Json& value, const std::string& path) { return as_integer(value, path, range); });
}
Result<std::optional<double>> find_number(const Json& object, JsonField field, NumberRange range) {
  return optional<double>(object, field,
                          [&](const Json& value, const std::string& path) { return as_number(value, path, range); });
}
Result<const Json*> find_array(const Json& object, JsonField field) {
  ESP_TRY(auto found, optional<const Json*>(object, field, as_array));
  return found.value_or(nullptr);
}
Result<const Json*> find_object(const Json& object, JsonField field) {
  ESP_TRY(auto found, optional<const Json*>(object, field, as_object));
  return found.value_or(nullptr);
}

Error in_file(Error error, std::string_view file) {
  if (error.kind != Error::Kind::out_of_memory) error.kind = Error::Kind::bad_file;
  error.message = fmt::format("{}: {}", file, error.message);
  return error;
}

}  // namespace espalier
