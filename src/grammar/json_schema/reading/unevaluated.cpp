// unevaluatedProperties and unevaluatedItems as formulas.
//
// What is evaluated depends on which of the schemas that are applied to the same value hold (anyOf, if,
// dependentSchemas ...). For every set of these the formula has a case: they hold, and what they do not evaluate
// satisfies the keyword. Nobody needs to say that the others do not hold: more that holds evaluates more, so that its
// case asks for less.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr std::size_t kMostBranches = 8;       // that may hold or not
constexpr std::size_t kMostEvaluating = 1000;  // schemas that are applied to one value

// What a schema, or one that it applies to the same value, evaluates while the conditions hold.
struct Evaluated {
  std::vector<Formula> conditions = {};
  NameSet names = {};
  bool all_members = false;
  std::uint32_t items = 0;  // the first ones
  bool all_items = false;
  std::vector<Formula> matching = {};  // items that satisfy one of these

  bool nothing() const {
    return names.names.empty() && names.patterns.empty() && !all_members && items == 0 && !all_items &&
           matching.empty();
  }
  void add(const Evaluated& more);  // whatever its conditions
};

// A schema that another one applies to the same value, and when.
struct AppliedSchema {
  SchemaNumber schema = 0;
  std::optional<Formula> condition;
};

void Evaluated::add(const Evaluated& more) {
  names.names.insert(names.names.end(), more.names.names.begin(), more.names.names.end());
  names.patterns.insert(names.patterns.end(), more.names.patterns.begin(), more.names.patterns.end());
  matching.insert(matching.end(), more.matching.begin(), more.matching.end());
  all_members |= more.all_members;
  all_items |= more.all_items;
  items = std::max(items, more.items);
}

// What the schema's own keywords evaluate. Of the `root` the unevaluated keywords are the ones that ask.
Result<Evaluated> own_evaluation(Reading& in, bool root) {
  Evaluated own;
  const auto has = [&](const char* keyword) { return in.find(keyword) != nullptr; };
  ESP_TRY(own.names, declared_names(in));
  own.all_members = has("additionalProperties") || (!root && has("unevaluatedProperties"));
  const bool tuples = in.draft() < Draft::of_2020;
  const Json* prefix = in.find(tuples ? "items" : "prefixItems");
  const Json* items = in.find("items");
  if (prefix != nullptr && prefix->is_array()) own.items = static_cast<std::uint32_t>(prefix->size());
  own.all_items = (items != nullptr && !items->is_array()) || (!root && has("unevaluatedItems")) ||
                  (tuples && own.items > 0 && has("additionalItems"));
  if (const Json* contains = in.find("contains"); contains != nullptr && !tuples) {
    own.matching.push_back(in.subschema(*contains, "contains"));
  }
  return own;
}

// The schemas that this one applies to the same value, with what they depend on.
Result<std::vector<AppliedSchema>> branches(Reading& in) {
  std::vector<AppliedSchema> found;
  FormulaStore& f = in.tables().formulas;
  const auto number = [&](const Json& schema, std::string_view keyword, std::string_view token = {}) {
    return in.document().number(schema, in.number, keyword, token);
  };
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const Json* list = in.find(keyword);
    for (std::size_t i = 0; list != nullptr && list->is_array() && i < list->size(); ++i) {
      const Json& schema = (*list)[i];
      if (!schema.is_object()) continue;
      const SchemaNumber part = number(schema, keyword, std::to_string(i));
      const bool always = keyword == std::string_view("allOf") || list->size() == 1;
      found.push_back({part, always ? std::nullopt : std::optional(in.applied(part))});
    }
  }
  if (const Json* tested = in.find("if"); tested != nullptr) {
    const Formula holds = in.condition(*tested, "if");
    if (tested->is_object()) found.push_back({number(*tested, "if"), holds});
    const Json *then = in.find("then"), *other = in.find("else");
    if (then != nullptr && then->is_object()) found.push_back({number(*then, "then"), holds});
    if (other != nullptr && other->is_object()) found.push_back({number(*other, "else"), f.no(holds)});
  }
  if (const Json* dependent = in.find("dependentSchemas"); dependent != nullptr && dependent->is_object()) {
    for (const auto& [name, schema] : dependent->items()) {
      if (!schema.is_object()) continue;
      const Formula has_it = f.all(in.one(Kind::type, kObject), in.one(Kind::required, in.tables().text(name)));
      found.push_back({number(schema, "dependentSchemas", name), has_it});
    }
  }
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Json* reference = in.find(keyword);
    if (reference == nullptr || !reference->is_string()) continue;
    const auto& address = reference->get_ref<const std::string&>();
    const bool is_static = keyword == std::string_view("$ref");
    ESP_TRY(const SchemaNumber target,
            is_static
                ? in.document().resolve(in.number, address)
                : in.document().resolve_dynamic(in.number, address, keyword == std::string_view("$recursiveRef")));
    found.push_back({target, std::nullopt});
  }
  return found;
}

Result<> evaluate(Reading in, const std::vector<Formula>& conditions, bool root, std::vector<Evaluated>& found) {
  if (!in.schema.is_object()) return success();
  ESP_TRY(Evaluated own, own_evaluation(in, root));
  own.conditions = conditions;
  found.push_back(std::move(own));
  if (found.size() > kMostEvaluating) {
    const std::string& place = in.document().pointer(in.number);
    return bad_request("JSON schema: too many schemas apply to the value at " + place +
                           ", or it refers to itself without reading anything",
                       place, "grammar_invalid");
  }
  ESP_TRY(const std::vector<AppliedSchema> all, branches(in));
  for (const AppliedSchema& branch : all) {
    std::vector<Formula> more = conditions;
    if (branch.condition && *branch.condition != FormulaStore::always) more.push_back(*branch.condition);
    if (branch.condition == FormulaStore::never) continue;
    ESP_CHECK(
        evaluate({in.context, branch.schema, in.document().schema(branch.schema), in.as_written}, more, false, found));
  }
  return success();
}

// One entry for each set of conditions; that of none first.
Result<std::vector<Evaluated>> evaluated_by(Reading& in) {
  std::vector<Evaluated> all, merged(1);
  ESP_CHECK(evaluate({in.context, in.number, in.schema, in.as_written}, {}, true, all));
  for (Evaluated& part : all) {
    if (part.nothing()) continue;
    auto same = std::ranges::find(merged, part.conditions, &Evaluated::conditions);
    if (same == merged.end()) {
      merged.push_back(std::move(part));
      continue;
    }
    same->add(part);
  }
  return merged;
}

Result<Formula> in_every_case(Reading& in, std::string_view keyword,
                              const std::function<Formula(const Evaluated&)>& rest) {
  ESP_TRY(const std::vector<Evaluated> parts, evaluated_by(in));
  if (parts.size() - 1 > kMostBranches) {
    return in.refuse(keyword, "depends on more than eight other schemas, which is not supported");
  }
  std::vector<Formula> cases;
  for (std::uint32_t held = 0; held < (1u << (parts.size() - 1)); ++held) {
    Evaluated together = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (((held >> (i - 1)) & 1) == 0) continue;
      const Evaluated& part = parts[i];
      together.conditions.insert(together.conditions.end(), part.conditions.begin(), part.conditions.end());
      together.add(part);
    }
    std::vector<Formula> conditions = together.conditions;
    conditions.push_back(rest(together));
    cases.push_back(in.tables().formulas.all(conditions));
  }
  return in.tables().formulas.any(cases);
}

}  // namespace

Result<> read_unevaluated_properties(Reading& in, const Json& value) {
  if (in.draft() < Draft::of_2019) return success();
  in.traits().describes_documents = true;
  const Formula wanted = in.subschema(value, "unevaluatedProperties");
  if (wanted == FormulaStore::always) return success();
  ESP_TRY(const Formula formula, in_every_case(in, "unevaluatedProperties", [&](const Evaluated& by) {
            return by.all_members ? Formula{FormulaStore::always}
                                  : in.one(Kind::additional, in.tables().name_set(by.names), wanted);
          }));
  in.parts.push_back(formula);
  return success();
}

Result<> read_unevaluated_items(Reading& in, const Json& value) {
  if (in.draft() < Draft::of_2019) return success();
  in.traits().describes_documents = true;
  const Formula wanted = in.subschema(value, "unevaluatedItems");
  if (wanted == FormulaStore::always) return success();
  ESP_TRY(const Formula formula, in_every_case(in, "unevaluatedItems", [&](const Evaluated& by) {
            std::vector<Formula> ways = by.matching;
            ways.push_back(wanted);
            const Formula rest = in.one(Kind::items, by.items, in.tables().formulas.any(ways));
            return by.all_items ? Formula{FormulaStore::always} : rest;
          }));
  in.parts.push_back(formula);
  return success();
}

}  // namespace espalier::grammar
