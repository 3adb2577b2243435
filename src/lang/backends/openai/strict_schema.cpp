#include "lang/backends/openai/strict_schema.h"

#include <algorithm>
#include <string_view>

#include "base/json/json_fields.h"

namespace espalier::lang::openai {
namespace {

bool lists(const Json* list, const std::string& word) {
  return list && list->is_array() && std::find(list->begin(), list->end(), Json(word)) != list->end();
}

bool is_object_schema(const Json& schema) {
  const Json* type = find_field(schema, "type");
  return (type && (*type == "object" || lists(type, "object"))) || find_field(schema, "properties");
}

bool wants_exactly_its_properties(const Json& schema) {
  const Json* properties = find_field(schema, "properties");
  const Json* required = find_field(schema, "required");
  const Json* others = find_field(schema, "additionalProperties");
  if (!properties || !properties->is_object() || !others || *others != false) return false;
  for (const auto& [name, inner] : properties->get_ref<const Json::object_t&>())
    if (!lists(required, name)) return false;
  return true;
}

// Schemas that lie under a word of `schema`: in a map, in a list, or alone.
bool all_strict(const Json* inner) {
  if (!inner || !inner->is_structured()) return true;
  return std::all_of(inner->begin(), inner->end(), [](const Json& one) { return is_strict_schema(one); });
}

}  // namespace

bool is_strict_schema(const Json& schema) {
  if (!schema.is_object()) return false;
  if (is_object_schema(schema) && !wants_exactly_its_properties(schema)) return false;
  for (const char* word : {"oneOf", "allOf", "not", "patternProperties", "if"})
    if (schema.contains(word)) return false;
  for (const char* word : {"properties", "$defs", "definitions", "anyOf"})
    if (!all_strict(find_field(schema, word))) return false;
  const Json* items = find_field(schema, "items");
  return !items || is_strict_schema(*items);
}

}  // namespace espalier::lang::openai
