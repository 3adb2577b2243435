#include "grammar/json_schema/reading/equal_values.h"

#include <algorithm>

namespace espalier::grammar {

using Kind = Demand::Kind;

Result<Formula> EqualValues::equal_to(const Json& value, bool written) {
  FormulaStore& f = tables_.formulas;
  if (!tables_.goes_on()) return FormulaStore::never;
  if (value.is_null()) return one(Kind::type, kNull);
  if (value.is_boolean()) {
    const Formula truth = one(Kind::is_true, 0);
    return f.all(one(Kind::type, kBoolean), value.get<bool>() ? truth : f.no(truth));
  }
  if (value.is_string()) {
    return f.all(one(Kind::type, kString), one(Kind::equals, tables_.text(value.get_ref<const std::string&>())));
  }
  if (const std::string text = written_number(value); !text.empty()) {
    if (written) return equal_to_written(text);
    return equal_to_number(text);
  }
  return value.is_array() ? equal_to_array(value, written) : equal_to_object(value, written);
}

Result<Formula> EqualValues::equal_to_number(const std::string& text) {
  const auto number = decimal_of(text);
  if (!number) return bad_request("JSON schema: the number " + text + " is too long", "", "grammar_invalid");
  const std::uint32_t place = tables_.decimal(*number);
  if (text != number->text() && text.find_first_of("eE") == std::string::npos) {
    tables_.spellings[place].push_back(text);
  }
  return tables_.formulas.all(one(Kind::type, kNumber), one(Kind::equals, place, 1));
}

Result<Formula> EqualValues::equal_to_array(const Json& value, bool written) {
  std::vector<Formula> parts{one(Kind::type, kArray)};
  const auto size = static_cast<std::uint32_t>(value.size());
  for (std::uint32_t i = 0; i < size; ++i) {
    ESP_TRY(const Formula item, equal_to(value[i], written));
    parts.push_back(one(Kind::item, i, item));
  }
  parts.push_back(one(Kind::min_items, size));
  parts.push_back(one(Kind::max_items, size));
  return tables_.formulas.all(parts);
}

Result<Formula> EqualValues::equal_to_object(const Json& value, bool written) {
  std::vector<Formula> parts{one(Kind::type, kObject)};
  NameSet all_names;
  for (const auto& [name, member] : value.items()) {
    ESP_TRY(const Formula equal, equal_to(member, written));
    all_names.names.push_back(tables_.text(name));
    parts.push_back(one(Kind::property, all_names.names.back(), equal));
    parts.push_back(one(Kind::required, all_names.names.back()));
  }
  parts.push_back(one(Kind::additional, tables_.name_set(std::move(all_names)), FormulaStore::never));
  return tables_.formulas.all(parts);
}

// A number that has been written. One of more than 600 digits, or with an exponent that nobody can write out, stands
// for its neighbours too: those beyond 10^39, or with the same first 40 digits behind the point.
Formula EqualValues::equal_to_written(const std::string& number) {
  constexpr std::size_t kMostExact = 600, kDigits = 40;
  FormulaStore& f = tables_.formulas;
  const auto exact = decimal_of(number, std::max(kMostDigits, number.size()));
  if (exact && exact->whole.size() + exact->fraction.size() <= kMostExact)
    return f.all(one(Kind::type, kNumber), one(Kind::equals, tables_.decimal(*exact), 1));
  const bool negative = number.starts_with('-');
  const Kind inwards = negative ? Kind::at_most : Kind::at_least, outwards = negative ? Kind::at_least : Kind::at_most;
  const bool is_tiny = !exact && number.find_first_of('-', 1) != std::string::npos;
  const Decimal near = exact ? cut(*exact, kDigits) : Decimal();
  const bool is_huge = near.whole.size() > kDigits || (!exact && !is_tiny);
  if (is_huge) {
    const std::uint32_t far = tables_.decimal({negative, '1' + std::string(kDigits - 1, '0'), ""});
    return f.all(one(Kind::type, kNumber), one(inwards, far));
  }
  Decimal next = next_decimal(near, kDigits);
  next.negative = negative;
  return f.all(
      {one(Kind::type, kNumber), one(inwards, tables_.decimal(near), 1), one(outwards, tables_.decimal(next), 1)});
}

Formula EqualValues::of_text(std::string_view json) {
  JsonLimits limits;
  limits.depth = 1000;
  limits.number_characters = json.size();
  limits.exact_numbers = limits.repeated_keys = true;
  const auto value = parse_json(json, limits);
  if (!value.ok()) return one(Kind::type, json.starts_with('[') ? kArray : kObject);
  const auto equal = equal_to(*value, true);
  return equal.ok() ? *equal : FormulaStore::always;
}

}  // namespace espalier::grammar
