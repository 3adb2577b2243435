// keywords.h: what each keyword of JSON Schema says of a value, as formulas.
//
// Drafts 4, 6, 7, 2019-09 and 2020-12; keywords that only describe (title, default, ...) and unknown ones are ignored,
// as the specification wants; `format` is checked for the formats of formats.h.
// Threads and failures: as Reading.
#pragma once

#include <span>
#include <string_view>

#include "grammar/json_schema/reading/reading.h"

namespace espalier::grammar {

using ReadKeyword = Result<> (*)(Reading& in, const Json& value);

// A keyword, and how its value is read.
struct Keyword {
  std::string_view name;
  ReadKeyword read = nullptr;
  bool in_order = false;  // of the document: it decides the order of members
};

// In the order in which they are read, whatever the schema's: declared properties come before names that only
// `required` mentions.
std::span<const Keyword> keywords();

// Any value (value_keywords.cpp).
Result<> read_type(Reading& in, const Json& value);
Result<> read_enum(Reading& in, const Json& value);
Result<> read_const(Reading& in, const Json& value);
Result<> read_ref(Reading& in, const Json& value);
Result<> read_dynamic_ref(Reading& in, const Json& value);
Result<> read_extends(Reading& in, const Json& value);
Result<> read_disallow(Reading& in, const Json& value);

// Schemas of the same value (combination_keywords.cpp).
Result<> read_all_of(Reading& in, const Json& value);
Result<> read_any_of(Reading& in, const Json& value);
Result<> read_one_of(Reading& in, const Json& value);
Result<> read_not(Reading& in, const Json& value);
Result<> read_if(Reading& in, const Json& value);

// Strings and numbers (scalar_keywords.cpp).
Result<> read_min_length(Reading& in, const Json& value);
Result<> read_max_length(Reading& in, const Json& value);
Result<> read_pattern(Reading& in, const Json& value);
Result<> read_format(Reading& in, const Json& value);
Result<> read_minimum(Reading& in, const Json& value);
Result<> read_maximum(Reading& in, const Json& value);
Result<> read_exclusive_minimum(Reading& in, const Json& value);
Result<> read_exclusive_maximum(Reading& in, const Json& value);
Result<> read_multiple_of(Reading& in, const Json& value);

// Arrays (array_keywords.cpp).
Result<> read_prefix_items(Reading& in, const Json& value);
Result<> read_items(Reading& in, const Json& value);
Result<> read_additional_items(Reading& in, const Json& value);
Result<> read_contains(Reading& in, const Json& value);
Result<> read_min_items(Reading& in, const Json& value);
Result<> read_max_items(Reading& in, const Json& value);
Result<> read_unique_items(Reading& in, const Json& value);
void close_array(Reading& in);

// Objects (object_keywords.cpp).
Result<> read_properties(Reading& in, const Json& value);
Result<> read_pattern_properties(Reading& in, const Json& value);
Result<> read_additional_properties(Reading& in, const Json& value);
Result<> read_property_names(Reading& in, const Json& value);
Result<> read_required(Reading& in, const Json& value);
Result<> read_min_properties(Reading& in, const Json& value);
Result<> read_max_properties(Reading& in, const Json& value);
Result<> read_dependent_required(Reading& in, const Json& value);
Result<> read_dependent_schemas(Reading& in, const Json& value);
Result<> read_dependencies(Reading& in, const Json& value);
void close_object(Reading& in);
Result<NameSet> declared_names(const Reading& in);  // that `properties` and `patternProperties` speak of

// What other schemas of the value leave over (unevaluated.cpp).
Result<> read_unevaluated_properties(Reading& in, const Json& value);
Result<> read_unevaluated_items(Reading& in, const Json& value);

}  // namespace espalier::grammar
