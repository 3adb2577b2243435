#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "grammar/json_schema/reading/reading.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

// Whether closing could leave out some value: most conditions are of single values, and need not be read twice.
bool may_close(const Json& schema) {
  const auto holds_schema = [](const Json& value) {
    return value.is_object() || (value.is_array() && std::ranges::any_of(value, &Json::is_object));
  };
  const auto type = schema.find("type");
  if (type != schema.end() && (*type == "object" || *type == "array")) return true;
  return std::ranges::any_of(schema, holds_schema) || schema.contains("$ref") || schema.contains("$dynamicRef") ||
         schema.contains("$recursiveRef") || schema.contains("prefixItems");
}

}  // namespace

Result<Expression> TextPatterns::matching(const std::string& source) {
  if (const auto known = patterns_.find(source); known != patterns_.end()) return known->second;
  ESP_TRY(const Expression found, tables_.searched(source));
  return patterns_[source] = found;
}

Result<Expression> TextPatterns::of_format(const Regex& regex) {
  const auto [known, fresh] = formats_.try_emplace(&regex);
  if (fresh) {
    ESP_TRY(known->second, tables_.spelling.search(regex));
  }
  return known->second;
}

Error Reading::refuse(std::string_view keyword, std::string_view why) const {
  const std::string place = context.document.pointer(number) + pointer_token(keyword);
  return {Error::Kind::unsupported, fmt::format("JSON schema: {} at {} {}", keyword, place, why), place, {}};
}

Error Reading::malformed(std::string_view keyword, std::string_view wanted,
                         std::optional<std::string_view> token) const {
  std::string place = context.document.pointer(number) + pointer_token(keyword);
  if (token) place += pointer_token(*token);
  return bad_request(fmt::format("JSON schema: {} at {} must be {}", keyword, place, wanted), place, "grammar_invalid");
}

Formula Reading::applied(SchemaNumber to_the_same_value) const {
  if (as_written && context.known_conditions.insert(to_the_same_value).second)
    context.conditions.push_back(to_the_same_value);
  return one(Kind::schema, to_the_same_value, as_written ? 1 : 0);
}

Formula Reading::subschema(const Json& value, std::string_view keyword, std::string_view token) const {
  if (!context.tables.goes_on()) return FormulaStore::never;
  if (value.is_boolean()) return value.get<bool>() ? FormulaStore::always : FormulaStore::never;
  if (value.is_object() && value.empty()) return FormulaStore::always;
  return applied(document().number(value, number, keyword, token));
}

Formula Reading::condition(const Json& value, std::string_view keyword, std::string_view token) const {
  const bool written = as_written || (context.closes && may_close(value));
  return Reading{context, number, schema, written}.subschema(value, keyword, token);
}

Result<std::vector<Formula>> Reading::list(const Json& value, std::string_view keyword) const {
  if (!value.is_array() || value.empty()) return malformed(keyword, "a list of schemas");
  std::vector<Formula> schemas;
  for (std::size_t i = 0; i < value.size(); ++i) schemas.push_back(subschema(value[i], keyword, std::to_string(i)));
  return schemas;
}

Result<Expression> Reading::pattern(const std::string& source, std::string_view keyword) const {
  auto found = context.patterns.matching(source);
  if (found.ok()) return found;
  const std::string place = document().pointer(number) + pointer_token(keyword);
  Error error = std::move(found).error();
  error.message = fmt::format("JSON schema: pattern {} at {}: {}", in_quotes(source), place, error.message);
  error.field = place;
  return error;
}

Result<std::uint32_t> Reading::count(const Json& value, std::string_view keyword) const {
  const bool whole =
      value.is_number() && value.get<double>() >= 0 && std::floor(value.get<double>()) == value.get<double>();
  if (!whole) return malformed(keyword, "a whole number, 0 or more");
  return static_cast<std::uint32_t>(std::min(value.get<double>(), static_cast<double>(kUnbounded - 1)));
}

Result<Decimal> Reading::decimal(const Json& value, std::string_view keyword) const {
  const std::string written = written_number(value);
  if (written.empty()) return malformed(keyword, "a number");
  const auto read = decimal_of(written);
  if (!read) return malformed(keyword, "a number of at most 2000 digits");
  return *read;
}

}  // namespace espalier::grammar
