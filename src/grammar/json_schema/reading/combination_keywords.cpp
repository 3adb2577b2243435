// Keywords that apply several schemas to one value.
#include <algorithm>

#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

// Whether a schema's own words leave objects possible.
bool may_be_object(const Reading& in, const Json& schema) {
  const Json* at = &schema;
  SchemaNumber from = in.number;
  for (int references = 0; references < 20 && at->is_object() && at->contains("$ref"); ++references) {
    const Json& reference = (*at)["$ref"];
    if (!reference.is_string()) return true;
    const auto target = in.document().resolve(from, reference.get_ref<const std::string&>());
    if (!target.ok()) return true;
    from = *target;
    at = &in.document().schema(from);
  }
  if (!at->is_object()) return !at->is_boolean() || at->get<bool>();
  const auto is_object = [](const Json& value) { return value == "object"; };
  if (const auto type = at->find("type"); type != at->end())
    return type->is_array() ? std::ranges::any_of(*type, is_object) : is_object(*type);
  if (const auto listed = at->find("enum"); listed != at->end() && listed->is_array())
    return std::ranges::any_of(*listed, [](const Json& value) { return value.is_object(); });
  const auto value = at->find("const");
  return value == at->end() || value->is_object();
}

}  // namespace

Result<> read_all_of(Reading& in, const Json& value) {
  ESP_TRY(std::vector<Formula> parts, in.list(value, "allOf"));
  in.parts.insert(in.parts.end(), parts.begin(), parts.end());
  return success();
}

Result<> read_any_of(Reading& in, const Json& value) {
  ESP_TRY(std::vector<Formula> parts, in.list(value, "anyOf"));
  in.parts.push_back(in.tables().formulas.any(parts));
  return success();
}

Result<> read_one_of(Reading& in, const Json& value) {
  ESP_TRY(const std::vector<Formula> parts, in.list(value, "oneOf"));
  in.traits().chooses = true;
  const auto is_object = [&](const Json& way) { return may_be_object(in, way); };
  in.traits().describes_documents |= std::ranges::count_if(value, is_object) > 1;
  std::vector<Formula> excluded = parts;
  for (std::size_t i = 0; in.context.closes && i < value.size(); ++i)
    excluded[i] = in.condition(value[i], "oneOf", std::to_string(i));
  in.parts.push_back(in.tables().formulas.exactly_one(parts, excluded));
  return success();
}

Result<> read_not(Reading& in, const Json& value) {
  in.traits().describes_documents = true;
  in.parts.push_back(in.tables().formulas.no(in.condition(value, "not")));
  return success();
}

Result<> read_if(Reading& in, const Json& value) {
  if (in.draft() < Draft::seven) return success();
  in.traits().describes_documents = true;
  FormulaStore& f = in.tables().formulas;
  const Formula holds = in.condition(value, "if");
  if (const Json* then = in.find("then")) in.parts.push_back(f.any(f.no(holds), in.subschema(*then, "then")));
  if (const Json* other = in.find("else")) in.parts.push_back(f.any(holds, in.subschema(*other, "else")));
  return success();
}

}  // namespace espalier::grammar
