#include "grammar/json_schema/schema_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace espalier::grammar {
namespace {

// Schemas without which no value satisfies this one, unless it is of a type of which they say nothing.
std::vector<SchemaNumber> needed_parts(SchemaDocument& document, SchemaNumber number) {
  const Json& schema = document.schema(number);
  std::vector<SchemaNumber> parts;
  if (!schema.is_object()) return parts;
  if (const auto target = schema.find("$ref"); target != schema.end() && target->is_string()) {
    const auto found = document.resolve(number, target->get_ref<const std::string&>());
    if (found.ok()) parts.push_back(*found);
    if (document.draft(number) <= Draft::seven) return parts;
  }
  if (const auto all = schema.find("allOf"); all != schema.end() && all->is_array()) {
    for (std::size_t i = 0; i < all->size(); ++i)
      parts.push_back(document.number((*all)[i], number, "allOf", std::to_string(i)));
  }
  const auto required = schema.find("required"), properties = schema.find("properties");
  if (required == schema.end() || !required->is_array() || properties == schema.end()) return parts;
  for (const Json& name : *required) {
    const auto value = name.is_string() ? properties->find(name.get_ref<const std::string&>()) : properties->end();
    if (value != properties->end()) parts.push_back(document.number(*value, number, "properties", value.key()));
  }
  return parts;
}

}  // namespace

Error too_complex(const SchemaDocument& document, const OpenQuestions& questions) {
  const std::string& place = document.pointer(questions.at_fault());
  const std::string_view why = questions.too_deep()
                                   ? "too many schemas within one another, or references in a row, lead to"
                                   : "too many ways to satisfy";
  return bad_request(fmt::format("JSON schema: {} the schema at {}; a simpler one will do better", why, place), place,
                     "grammar_too_complex");
}

Error without_value(SchemaDocument& document, bool closed, const std::function<bool(SchemaNumber)>& has_none) {
  SchemaNumber at = 0;
  for (std::set<SchemaNumber> passed; passed.insert(at).second;) {  // a reference may lead back
    const std::vector<SchemaNumber> parts = needed_parts(document, at);
    const auto found = std::ranges::find_if(parts, has_none);
    if (found == parts.end()) break;
    at = *found;
  }
  const std::string& place = document.pointer(at);
  const char* const others = closed ? " with objects that have no members but those it lists; additionalProperties: "
                                      "true in them (or strict: false in a response_format) allows others"
                                    : "";
  return bad_request(fmt::format("JSON schema: no value satisfies the schema at {}{}", place, others), place,
                     "grammar_invalid");
}

}  // namespace espalier::grammar
