#include "tensor/file/gguf_metadata.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "tensor/file/byte_cursor.h"

namespace espalier {
namespace {

constexpr std::array<std::string_view, 13> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                     "bool", "string", "array", "u64", "i64", "f64"};

bool is_integer(GgufType type) {
  return type <= GgufType::i32 || type == GgufType::u64 || type == GgufType::i64;
}
bool is_float(GgufType type) {
  return type == GgufType::f32 || type == GgufType::f64;
}

// Requires: the cursor stands at a whole value of the type (the directory's reader has made sure).
template <class Number>
Number next(ByteCursor& at) {
  return at.number<Number>().value_or(Number());
}

std::optional<std::int64_t> next_integer(ByteCursor& at, GgufType type) {
  switch (type) {
    case GgufType::u8:
      return next<std::uint8_t>(at);
    case GgufType::i8:
      return next<std::int8_t>(at);
    case GgufType::u16:
      return next<std::uint16_t>(at);
    case GgufType::i16:
      return next<std::int16_t>(at);
    case GgufType::u32:
      return next<std::uint32_t>(at);
    case GgufType::i32:
      return next<std::int32_t>(at);
    case GgufType::i64:
      return next<std::int64_t>(at);
    case GgufType::u64:
      return checked_cast<std::int64_t>(next<std::uint64_t>(at));
    default:
      return std::nullopt;
  }
}

double next_float(ByteCursor& at, GgufType type) {
  return type == GgufType::f32 ? static_cast<double>(next<float>(at)) : next<double>(at);
}

std::string_view next_string(ByteCursor& at) {
  const auto length = next<std::uint64_t>(at);
  return as_text(at.take(length).value_or(std::span<const std::byte>()));
}

std::string show_one(ByteCursor& at, GgufType type, std::size_t most) {
  if (type == GgufType::string) return in_quotes(next_string(at), most);
  if (type == GgufType::boolean) return next<std::uint8_t>(at) != 0 ? "true" : "false";
  if (is_float(type)) return fmt::format("{}", next_float(at, type));
  if (type == GgufType::u64) return fmt::format("{}", next<std::uint64_t>(at));
  return fmt::format("{}", next_integer(at, type).value_or(0));
}

std::string type_of(const GgufValue& value) {
  if (value.type != GgufType::array) return fmt::format("{} {}", name(value.type), shown(value));
  return fmt::format("an array of {}", name(value.element));
}

std::string wanted(std::string_view what, double low, double high, bool above_low) {
  return fmt::format("{} {}{} and at most {}", what, above_low ? "above " : "of at least ", low, high);
}

}  // namespace

std::string_view name(GgufType type) {
  return kNames[static_cast<std::size_t>(type)];
}

std::string shown(const GgufValue& value, std::size_t most) {
  ByteCursor at(value.bytes);
  if (value.type != GgufType::array) return show_one(at, value.type, most);
  std::string out = fmt::format("{} {}: [", value.count, name(value.element));
  for (std::uint64_t i = 0; i < value.count; ++i) {
    if (out.size() > most) return out + "...]";
    if (i > 0) out += ", ";
    out += show_one(at, value.element, most);
  }
  return out + "]";
}

GgufMetadata::GgufMetadata(std::string file, std::vector<GgufValue> entries)
    : file_(std::move(file)), entries_(std::move(entries)) {
  std::vector<std::string_view> keys;
  keys.reserve(entries_.size());
  for (const auto& entry : entries_) keys.push_back(entry.key);
  index_ = NameIndex(keys);
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto place = index_.find(key);
  return place ? &entries_[*place] : nullptr;
}

Error GgufMetadata::wrong(std::string_view key, std::string_view wanted, std::string_view found) const {
  return bad_file(fmt::format("{}: metadata key {} must be {}, but is {}", file_, key, wanted, found),
                  std::string(key));
}

Result<const GgufValue*> GgufMetadata::required(std::string_view key) const {
  if (const GgufValue* value = find(key)) return value;
  return bad_file(fmt::format("{}: metadata key {} is missing", file_, key), std::string(key));
}

Result<const GgufValue*> GgufMetadata::required_array(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required(key));
  if (value->type != GgufType::array) return wrong(key, "an array", type_of(*value));
  return value;
}

Result<std::int64_t> GgufMetadata::get_integer(std::string_view key, IntegerRange range) const {
  ESP_TRY(const GgufValue* value, required(key));
  ByteCursor at(value->bytes);
  const auto number = is_integer(value->type) ? next_integer(at, value->type) : std::nullopt;
  if (number && *number >= range.low && *number <= range.high) return *number;
  return wrong(key, fmt::format("an integer in {}..{}", range.low, range.high), type_of(*value));
}

Result<double> GgufMetadata::get_number(std::string_view key, NumberRange range) const {
  ESP_TRY(const GgufValue* value, required(key));
  ByteCursor at(value->bytes);
  double number = std::nan("");
  if (is_float(value->type)) number = next_float(at, value->type);
  if (is_integer(value->type)) number = static_cast<double>(next_integer(at, value->type).value_or(0));
  // NaN fails both comparisons.
  if (number >= range.low && number <= range.high && !(range.above_low && number == range.low)) return number;
  return wrong(key, wanted("a number", range.low, range.high, range.above_low), type_of(*value));
}

Result<bool> GgufMetadata::get_boolean(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required(key));
  if (value->type != GgufType::boolean) return wrong(key, "a bool", type_of(*value));
  return value->bytes[0] != std::byte{0};
}

Result<std::string_view> GgufMetadata::get_string(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required(key));
  if (value->type != GgufType::string) return wrong(key, "a string", type_of(*value));
  ByteCursor at(value->bytes);
  return next_string(at);
}

Result<std::vector<std::string_view>> GgufMetadata::get_strings(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required_array(key));
  if (value->element != GgufType::string) return wrong(key, "an array of string", type_of(*value));
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<std::size_t>(value->count));  // no more than the file holds
  ByteCursor at(value->bytes);
  for (std::uint64_t i = 0; i < value->count; ++i) strings.push_back(next_string(at));
  return strings;
}

Result<std::vector<std::int64_t>> GgufMetadata::get_integers(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required_array(key));
  if (!is_integer(value->element)) return wrong(key, "an array of integers", type_of(*value));
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(value->count));
  ByteCursor at(value->bytes);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = next_integer(at, value->element);
    if (!number) return wrong(key, "an array of integers below 2^63", fmt::format("larger at element {}", i));
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<float>> GgufMetadata::get_floats(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required_array(key));
  if (!is_float(value->element)) return wrong(key, "an array of f32 or f64", type_of(*value));
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(value->count));
  ByteCursor at(value->bytes);
  for (std::uint64_t i = 0; i < value->count; ++i)
    numbers.push_back(static_cast<float>(next_float(at, value->element)));
  return numbers;
}

Result<std::optional<std::int64_t>> GgufMetadata::find_integer(std::string_view key, IntegerRange range) const {
  if (find(key) == nullptr) return std::optional<std::int64_t>();
  ESP_TRY(const std::int64_t number, get_integer(key, range));
  return std::optional(number);
}

Result<std::optional<double>> GgufMetadata::find_number(std::string_view key, NumberRange range) const {
  if (find(key) == nullptr) return std::optional<double>();
  ESP_TRY(const double number, get_number(key, range));
  return std::optional(number);
}

Result<std::optional<bool>> GgufMetadata::find_boolean(std::string_view key) const {
  if (find(key) == nullptr) return std::optional<bool>();
  ESP_TRY(const bool value, get_boolean(key));
  return std::optional(value);
}

Result<std::optional<std::string_view>> GgufMetadata::find_string(std::string_view key) const {
  if (find(key) == nullptr) return std::optional<std::string_view>();
  ESP_TRY(const std::string_view text, get_string(key));
  return std::optional(text);
}

Result<std::uint64_t> GgufMetadata::get_count(std::string_view key) const {
  ESP_TRY(const GgufValue* value, required_array(key));
  return value->count;
}

}  // namespace espalier
