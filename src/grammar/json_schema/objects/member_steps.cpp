#include "grammar/json_schema/objects/member_steps.h"

#include <algorithm>
#include <unordered_set>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

// What is left of constraints on objects once a member of this name is read; what they ask of it becomes `value`.
Formula MemberSteps::at_member(Formula formula, std::uint32_t name) {
  const auto concerned = FormulaStore::mentions_name(name) | FormulaStore::mentions_members;
  return formulas_.map_mentioned(formula, concerned, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    switch (c.kind) {
      case Kind::property:
        return answer(c.a == name ? asked() : self);
      case Kind::required:
        return answer(c.a == name ? FormulaStore::always : self);
      case Kind::pattern:
        return answer(names_.matches(name, c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional:
        return answer(names_.in_set(name, tables_.name_sets[c.a]) ? self : formulas_.all(asked(), self));
      case Kind::names:
        return answer(names_.matches(name, names_.pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

Formula MemberSteps::at_other_member(Formula formula, const std::vector<Expression>& patterns, std::uint64_t matched) {
  const auto matches = [&](Expression pattern) {
    const auto place = std::ranges::find(patterns, pattern) - patterns.begin();
    return ((matched >> place) & 1) != 0;
  };
  return formulas_.map_mentioned(formula, FormulaStore::mentions_members, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    switch (c.kind) {
      case Kind::pattern:
        return answer(matches(c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional: {
        const auto& others = tables_.name_sets[c.a].patterns;
        return answer(std::ranges::any_of(others, matches) ? self : formulas_.all(asked(), self));
      }
      case Kind::names:
        return answer(matches(names_.pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

Formula MemberSteps::pass_name(Formula formula, std::uint32_t name) {
  return formulas_.map_mentioned(formula, FormulaStore::mentions_name(name), [&](const Demand& c, bool negated) {
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    const bool passed = (c.kind == Kind::property || c.kind == Kind::required) && c.a == name;
    const Formula left = passed ? constant(c.kind == Kind::property) : self;
    return negated ? formulas_.no(left) : left;
  });
}

std::vector<std::uint32_t> mentioned_names(const SchemaTables& tables, Formula formula) {
  std::vector<std::uint32_t> names;
  std::unordered_set<std::uint32_t> known;
  const auto add = [&](std::uint32_t name) {
    if (known.insert(name).second) names.push_back(name);
  };
  tables.formulas.each(formula, [&](const Demand& c, bool negated) {  // what is only excluded gives no order
    if (!negated && (c.kind == Kind::property || c.kind == Kind::required)) add(c.a);
  });
  std::vector<std::uint32_t> left_out;
  tables.formulas.each(formula, [&](const Demand& c, bool) {
    if (c.kind == Kind::property || c.kind == Kind::required) add(c.a);
    if (c.kind != Kind::additional) return;
    const NameSet& set = tables.name_sets[c.a];
    left_out.insert(left_out.end(), set.names.begin(), set.names.end());
  });
  for (const std::uint32_t name : left_out) add(name);
  return names;
}

}  // namespace espalier::grammar
