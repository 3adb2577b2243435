// What is told of a schema that is refused as a whole: where the work was that met a limit, and which of the schemas
// inside allows no value.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "grammar/json_schema/schema_grammar.h"

namespace espalier::grammar {

// The first that all values of the formula satisfy.
std::optional<SchemaNumber> SchemaGrammar::schema_in(Formula formula) const {
  for (const Formula part : conjuncts(formula)) {
    if (formulas_.op(part) != FormulaStore::Op::one) continue;
    if (const Demand c = formulas_.demand(part); c.kind == Kind::schema) return c.a;
  }
  return std::nullopt;
}

// Of the schemas that were being asked about when the limit was met, the innermost for which most was made: those
// inside it may be innocent. Those that are too deep made nothing.
Error SchemaGrammar::too_complex() const {
  const std::size_t begun = asked_.empty() ? 0 : asked_.front().made_before;
  const auto took_most = [&](const Asked& asked) { return 2 * (made() - asked.made_before) >= made() - begun; };
  const auto found = std::ranges::find_if(std::views::reverse(asked_), took_most);
  const SchemaNumber number = asked_.empty() ? 0 : too_deep_ ? asked_.back().schema : found->schema;
  const std::string& place = document_.pointer(number);
  const std::string_view why =
      too_deep_ ? "too many schemas within one another, or references in a row, lead to" : "too many ways to satisfy";
  return bad_request(fmt::format("JSON schema: {} the schema at {}; a simpler one will do better", why, place), place,
                     "grammar_too_complex");
}

// The innermost such schema that is found by looking at what every value around it must satisfy.
Error SchemaGrammar::without_value() {
  SchemaNumber at = 0;
  const auto has_none = [&](SchemaNumber part) { return !possible(schema(part)) && !limit_met(); };
  for (std::set<SchemaNumber> passed; passed.insert(at).second;) {  // a reference may lead back
    const std::vector<SchemaNumber> parts = needed_parts(at);
    const auto found = std::ranges::find_if(parts, has_none);
    if (found == parts.end()) break;
    at = *found;
  }
  const std::string& place = document_.pointer(at);
  const char* const closed = reader_.closes() && !as_written_
                                 ? " with objects that have no members but those it lists; additionalProperties: true "
                                   "in them (or strict: false in a response_format) allows others"
                                 : "";
  return bad_request(fmt::format("JSON schema: no value satisfies the schema at {}{}", place, closed), place,
                     "grammar_invalid");
}

// Schemas without which no value satisfies this one, unless it is of a type of which they say nothing.
std::vector<SchemaNumber> SchemaGrammar::needed_parts(SchemaNumber number) {
  const Json& schema = document_.schema(number);
  std::vector<SchemaNumber> parts;
  if (!schema.is_object()) return parts;
  if (const auto target = schema.find("$ref"); target != schema.end() && target->is_string()) {
    const auto found = document_.resolve(number, target->get_ref<const std::string&>());
    if (found.ok()) parts.push_back(*found);
    if (document_.draft(number) <= Draft::seven) return parts;
  }
  if (const auto all = schema.find("allOf"); all != schema.end() && all->is_array()) {
    for (std::size_t i = 0; i < all->size(); ++i)
      parts.push_back(document_.number((*all)[i], number, "allOf", std::to_string(i)));
  }
  const auto required = schema.find("required"), properties = schema.find("properties");
  if (required == schema.end() || !required->is_array() || properties == schema.end()) return parts;
  for (const Json& name : *required) {
    const auto value = name.is_string() ? properties->find(name.get_ref<const std::string&>()) : properties->end();
    if (value != properties->end()) parts.push_back(document_.number(*value, number, "properties", value.key()));
  }
  return parts;
}

}  // namespace espalier::grammar
