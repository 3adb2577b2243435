#include "grammar/json_schema/reading/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/threads/yield_to_model.h"
#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

std::span<const Keyword> keywords() {
  static constexpr Keyword kTable[] = {
      {"type", read_type},
      {"enum", read_enum},
      {"const", read_const},
      {"minLength", read_min_length},
      {"maxLength", read_max_length},
      {"pattern", read_pattern},
      {"format", read_format},
      {"minimum", read_minimum},
      {"maximum", read_maximum},
      {"exclusiveMinimum", read_exclusive_minimum},
      {"exclusiveMaximum", read_exclusive_maximum},
      {"multipleOf", read_multiple_of},
      {"divisibleBy", read_multiple_of},
      {"prefixItems", read_prefix_items},
      {"items", read_items},
      {"additionalItems", read_additional_items},
      {"contains", read_contains},
      {"minItems", read_min_items},
      {"maxItems", read_max_items},
      {"uniqueItems", read_unique_items},
      {"properties", read_properties, true},
      {"$ref", read_ref, true},
      {"$dynamicRef", read_dynamic_ref},
      {"$recursiveRef", read_dynamic_ref},
      {"allOf", read_all_of, true},
      {"anyOf", read_any_of},
      {"oneOf", read_one_of},
      {"if", read_if},
      {"not", read_not},
      {"patternProperties", read_pattern_properties},
      {"additionalProperties", read_additional_properties},
      {"propertyNames", read_property_names},
      {"required", read_required},
      {"minProperties", read_min_properties},
      {"maxProperties", read_max_properties},
      {"dependentRequired", read_dependent_required},
      {"dependentSchemas", read_dependent_schemas},
      {"dependencies", read_dependencies},
      {"unevaluatedProperties", read_unevaluated_properties},
      {"unevaluatedItems", read_unevaluated_items},
      {"extends", read_extends},
      {"disallow", read_disallow},
  };
  return kTable;
}

Result<Formula> SchemaReader::formula(SchemaNumber number, bool as_written) {
  const std::uint64_t key = std::uint64_t{number} * 2 + (as_written ? 1 : 0);
  if (const auto known = formulas_.find(key); known != formulas_.end()) return known->second;
  yield_to_model();
  const Json& schema = context_.document.schema(number);
  Reading in{context_, number, schema, as_written};
  if (schema.is_boolean()) return formulas_[key] = schema.get<bool>() ? FormulaStore::always : FormulaStore::never;
  if (!schema.is_object()) {
    return bad_request(fmt::format("JSON schema: {} must be an object or a boolean, but is {}",
                                   context_.document.pointer(number), type_name(schema)),
                       context_.document.pointer(number), "grammar_invalid");
  }
  const bool only_ref = schema.contains("$ref") && context_.document.draft(number) <= Draft::seven;
  bool ordered_read = false;
  for (const Keyword& keyword : keywords()) {
    if (keyword.in_order) {
      if (!std::exchange(ordered_read, true)) ESP_CHECK(read_in_order(in, only_ref));
      continue;
    }
    const auto value = only_ref ? schema.end() : schema.find(keyword.name);
    if (value != schema.end()) ESP_CHECK(keyword.read(in, *value));
  }
  if (!only_ref && context_.closes && !as_written) {
    close_object(in);
    close_array(in);
  }
  return formulas_[key] = context_.tables.formulas.all(in.parts);
}

// Keywords that name members, one after the other as the document has them.
Result<> SchemaReader::read_in_order(Reading& in, bool only_ref) {
  const std::span<const Keyword> known = keywords();
  for (const auto& [name, value] : in.schema.items()) {
    if (only_ref && name != "$ref") continue;
    const auto keyword = std::ranges::find(known, std::string_view(name), &Keyword::name);
    if (keyword != known.end() && keyword->in_order) ESP_CHECK(keyword->read(in, value));
  }
  return success();
}

}  // namespace espalier::grammar
