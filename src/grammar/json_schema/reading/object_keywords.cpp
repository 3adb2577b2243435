// Keywords for objects.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

// The strings of a list.
std::unordered_set<std::string_view> strings_in(const Json* list) {
  std::unordered_set<std::string_view> strings;
  if (list == nullptr || !list->is_array()) return strings;
  for (const Json& one : *list)
    if (one.is_string()) strings.insert(one.get_ref<const std::string&>());
  return strings;
}

// The formula for values of these types, whatever it says of others.
Formula typed(const Reading& in, std::uint32_t types, Formula formula) {
  return in.tables().formulas.any(in.one(Kind::type, ~types & kAnyType), formula);
}

// What must come with `name`: a list of names.
Result<std::vector<Formula>> required_names(Reading& in, const std::string& name, const Json& value,
                                            std::string_view keyword) {
  std::vector<Formula> parts;
  const auto is_name = [](const Json& other) { return other.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_name)) return in.malformed(keyword, "a list of names", name);
  for (const Json& other : value)
    parts.push_back(in.one(Kind::required, in.tables().text(other.get_ref<const std::string&>())));
  return parts;
}

void depend(Reading& in, const std::string& name, Formula then) {
  in.traits().describes_documents = true;
  FormulaStore& f = in.tables().formulas;
  in.parts.push_back(typed(in, kObject, f.any(f.no(in.one(Kind::required, in.tables().text(name))), then)));
}

}  // namespace

Result<> read_properties(Reading& in, const Json& value) {
  if (!value.is_object()) return in.malformed("properties", "an object of schemas");
  const auto required = strings_in(in.find("required"));
  for (const auto& [name, schema] : value.items()) {
    const std::uint32_t text = in.tables().text(name);
    const auto* const draft3_required =
        schema.is_object() && schema.contains("required") ? &schema["required"] : nullptr;
    const bool required_here =
        draft3_required != nullptr && draft3_required->is_boolean() && draft3_required->get<bool>();
    // Also names that may have any value: their place in the order counts.
    in.parts.push_back(in.tables().formulas.named({Kind::property, text, in.subschema(schema, "properties", name),
                                                   required_here || required.contains(name) ? 1u : 0u}));
    if (required_here) in.parts.push_back(in.one(Kind::required, text));
  }
  return success();
}

Result<> read_pattern_properties(Reading& in, const Json& value) {
  if (!value.is_object()) return in.malformed("patternProperties", "an object of schemas");
  for (const auto& [source, schema] : value.items()) {
    ESP_TRY(const Expression names, in.pattern(source, "patternProperties"));
    in.parts.push_back(in.one(Kind::pattern, names, in.subschema(schema, "patternProperties", source)));
  }
  return success();
}

Result<NameSet> declared_names(const Reading& in) {
  NameSet declared;
  if (const Json* properties = in.find("properties"); properties != nullptr && properties->is_object()) {
    for (const auto& [name, schema] : properties->items()) declared.names.push_back(in.tables().text(name));
  }
  if (const Json* patterns = in.find("patternProperties"); patterns != nullptr && patterns->is_object()) {
    for (const auto& [source, schema] : patterns->items()) {
      ESP_TRY(const Expression names, in.pattern(source, "patternProperties"));
      declared.patterns.push_back(names);
    }
  }
  return declared;
}

Result<> read_additional_properties(Reading& in, const Json& value) {
  ESP_TRY(NameSet others, declared_names(in));
  in.parts.push_back(
      in.one(Kind::additional, in.tables().name_set(std::move(others)), in.subschema(value, "additionalProperties")));
  return success();
}

Result<> read_property_names(Reading& in, const Json& value) {
  in.traits().describes_documents = true;
  in.parts.push_back(in.one(Kind::names, 0, in.subschema(value, "propertyNames")));
  return success();
}

Result<> read_required(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();  // draft 3: the object around looks at it
  if (!value.is_array()) return in.malformed("required", "a list of names");
  for (const Json& name : value) {
    if (!name.is_string()) return in.malformed("required", "a list of names");
    in.parts.push_back(in.one(Kind::required, in.tables().text(name.get_ref<const std::string&>())));
  }
  return success();
}

// Of either kind; draft 3 has a name alone, too.
Result<> read_dependencies(Reading& in, const Json& value) {
  if (!value.is_object()) return in.malformed("dependencies", "an object of schemas and lists of names");
  for (const auto& [name, then] : value.items()) {
    if (then.is_object() || then.is_boolean()) {
      depend(in, name, in.subschema(then, "dependencies", name));
    } else if (then.is_string()) {
      depend(in, name, in.one(Kind::required, in.tables().text(then.get_ref<const std::string&>())));
    } else if (then.is_array()) {
      ESP_TRY(const auto names, required_names(in, name, then, "dependencies"));
      depend(in, name, in.tables().formulas.all(names));
    } else {
      return in.malformed("dependencies", "a schema or a list of names", name);
    }
  }
  return success();
}

Result<> read_dependent_required(Reading& in, const Json& value) {
  if (!value.is_object()) return in.malformed("dependentRequired", "an object of lists of names");
  for (const auto& [name, then] : value.items()) {
    ESP_TRY(const auto names, required_names(in, name, then, "dependentRequired"));
    depend(in, name, in.tables().formulas.all(names));
  }
  return success();
}

Result<> read_dependent_schemas(Reading& in, const Json& value) {
  if (!value.is_object()) return in.malformed("dependentSchemas", "an object of schemas");
  for (const auto& [name, then] : value.items()) depend(in, name, in.subschema(then, "dependentSchemas", name));
  return success();
}

Result<> read_min_properties(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "minProperties"));
  in.parts.push_back(in.one(Kind::min_members, n));
  return success();
}

Result<> read_max_properties(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "maxProperties"));
  in.parts.push_back(in.one(Kind::max_members, n));
  return success();
}

void close_object(Reading& in) {
  const auto has = [&](const char* keyword) { return in.schema.contains(keyword); };
  const bool all = in.context.all_closed;
  const bool lists = (all && has("type") && in.schema["type"] == "object") || has("properties");
  const bool open = !all && has("patternProperties");
  if (!lists || open || has("additionalProperties") || has("unevaluatedProperties")) return;
  static const Json kNone = false;
  (void)read_additional_properties(in, kNone);
}

}  // namespace espalier::grammar
