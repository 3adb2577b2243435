// Keywords for strings and numbers.
#include "grammar/json_schema/reading/formats.h"
#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

// `minimum` with draft 4's boolean beside it, or a number of its own.
Result<> flag_bound(Reading& in, const Json& value, std::string_view keyword, std::string_view flag, Kind kind) {
  ESP_TRY(const Decimal bound, in.decimal(value, keyword));
  const auto found = in.schema.find(flag);
  const bool excluded = found != in.schema.end() && found->is_boolean() && found->get<bool>();
  in.parts.push_back(in.one(kind, in.tables().decimal(bound), excluded ? 1 : 0));
  return success();
}

}  // namespace

Result<> read_min_length(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "minLength"));
  if (n > 0) in.parts.push_back(in.one(Kind::length, n, kUnbounded));
  return success();
}

Result<> read_max_length(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "maxLength"));
  in.parts.push_back(in.one(Kind::length, 0, n));
  return success();
}

Result<> read_pattern(Reading& in, const Json& value) {
  if (!value.is_string()) return in.malformed("pattern", "a string");
  ESP_TRY(const Expression matching, in.pattern(value.get_ref<const std::string&>(), "pattern"));
  in.parts.push_back(in.one(Kind::matches, matching));
  return success();
}

Result<> read_format(Reading& in, const Json& value) {
  if (!value.is_string()) return in.malformed("format", "a string");
  const std::string& format = value.get_ref<const std::string&>();
  const Regex* const regex = format_regex(format);
  if (regex == nullptr) {
    in.traits().describes_documents = in.traits().describes_documents || !is_number_type(format);
    return success();
  }
  ESP_TRY(const Expression matching, in.context.patterns.of_format(*regex));
  in.parts.push_back(in.one(Kind::matches, matching, partial_format(format)));
  return success();
}

Result<> read_minimum(Reading& in, const Json& value) {
  return flag_bound(in, value, "minimum", "exclusiveMinimum", Kind::at_least);
}

Result<> read_maximum(Reading& in, const Json& value) {
  return flag_bound(in, value, "maximum", "exclusiveMaximum", Kind::at_most);
}

Result<> read_exclusive_minimum(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();  // read with minimum
  ESP_TRY(const Decimal bound, in.decimal(value, "exclusiveMinimum"));
  in.parts.push_back(in.one(Kind::at_least, in.tables().decimal(bound), 1));
  return success();
}

Result<> read_exclusive_maximum(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();
  ESP_TRY(const Decimal bound, in.decimal(value, "exclusiveMaximum"));
  in.parts.push_back(in.one(Kind::at_most, in.tables().decimal(bound), 1));
  return success();
}

Result<> read_multiple_of(Reading& in, const Json& value) {
  ESP_TRY(const Decimal factor, in.decimal(value, "multipleOf"));
  if (factor.negative || factor.is_zero()) return in.malformed("multipleOf", "a number above 0");
  const std::size_t digits =
      factor.whole == "0" ? factor.fraction.size() : factor.whole.size() + factor.fraction.size();
  if (digits > 9) {
    return in.refuse("multipleOf", "has more than nine digits, which is not supported");
  }
  in.parts.push_back(in.one(Kind::multiple, in.tables().decimal(factor)));
  return success();
}

}  // namespace espalier::grammar
