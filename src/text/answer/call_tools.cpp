#include "text/answer/call_tools.h"

#include <algorithm>
#include <cctype>

#include "base/json/json.h"
#include "text/answer/calls/json_scan.h"
#include "text/answer/calls/literal_value.h"
#include "text/answer/calls/mark_finder.h"

namespace espalier {
namespace {

constexpr int kSchemaSteps = 1000;  // subschemas that are looked at for one parameter; references may go in a ring

void add_type_named(ValueTypes& types, const Json& name) {
  if (!name.is_string()) return;
  const auto& text = name.get_ref<const std::string&>();
  if (text == "string") types.string = true;
  if (text == "integer") types.integer = true;
  if (text == "number") types.number = true;
  if (text == "boolean") types.boolean = true;
  if (text == "null") types.null = true;
  if (text == "array") types.array = true;
  if (text == "object") types.object = true;
}

void add_type_of(ValueTypes& types, const Json& value) {
  add_type_named(types, Json(std::string(type_name(value))));
}

// What a local reference ("#/$defs/x") leads to; null where it leads nowhere.
const Json* referred(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  const Json* at = &root;
  std::string_view rest = reference.substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const auto member = at->is_object() ? at->find(std::string(rest.substr(0, end))) : at->end();
    if (!at->is_object() || member == at->end()) return nullptr;
    at = &*member;
    rest.remove_prefix(end);
  }
  return at;
}

void add_types(ValueTypes& types, const Json& root, const Json& schema, int& steps) {
  if (!schema.is_object() || steps == 0) return;
  --steps;
  if (const auto type = schema.find("type"); type != schema.end()) {
    add_type_named(types, *type);
    if (type->is_array())
      for (const Json& one : *type) add_type_named(types, one);
    return;
  }
  if (const auto value = schema.find("const"); value != schema.end()) add_type_of(types, *value);
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array())
    for (const Json& value : *values) add_type_of(types, value);
  if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string())
    if (const Json* target = referred(root, reference->get_ref<const std::string&>()))
      add_types(types, root, *target, steps);
  for (const char* keyword : {"anyOf", "oneOf", "allOf"})
    if (const auto schemas = schema.find(keyword); schemas != schema.end() && schemas->is_array())
      for (const Json& one : *schemas) add_types(types, root, one, steps);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(text, word, [](unsigned char a, char b) { return std::tolower(a) == b; });
}

bool allowed(const Json& value, ValueTypes types) {
  switch (value.type()) {
    case Json::value_t::object:
      return types.object;
    case Json::value_t::array:
      return types.array;
    case Json::value_t::string:
      return types.string;
    case Json::value_t::boolean:
      return types.boolean;
    case Json::value_t::null:
      return true;
    default:
      return types.number || types.integer;
  }
}

constexpr JsonLimits kValueLimits{.depth = 1000, .values = 1'000'000, .repeated_keys = true};

}  // namespace

CallTools::CallTools(const std::vector<CallableTool>& tools) {
  for (const CallableTool& tool : tools) {
    Parameters& parameters = tools_[tool.name];
    const auto schema = parse_json(tool.parameters, {.repeated_keys = true});
    if (!schema.ok() || !schema->is_object()) continue;
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& [name, property] : properties->items()) {
      int steps = kSchemaSteps;
      add_types(parameters[name], *schema, property, steps);
    }
  }
}

ValueTypes CallTools::types(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(std::string(tool));
  if (found == tools_.end()) return {};
  const auto types = found->second.find(std::string(parameter));
  return types == found->second.end() ? ValueTypes{} : types->second;
}

std::string typed_json(std::string_view written, ValueTypes types) {
  if (types.only_string()) return json_quoted(written);
  const std::string_view text = trimmed(written);
  if (types.boolean && (is_word(text, "true") || is_word(text, "false")))
    return is_word(text, "true") ? "true" : "false";
  if ((types.null || !types.string) && is_word(text, "null")) return "null";
  if (const auto value = parse_json(text, kValueLimits); value.ok() && (types.any() || allowed(*value, types)))
    return std::string(text);
  if (types.array || types.object)
    if (const auto value = literal_json(text, LiteralDialect::python)) return *value;
  return json_quoted(written);
}

}  // namespace espalier
