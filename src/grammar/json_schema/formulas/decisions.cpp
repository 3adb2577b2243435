#include "grammar/json_schema/formulas/decisions.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr std::size_t kMostChoices = 4096;  // ways in which one member can satisfy what is left

}  // namespace

std::vector<Choice> Decisions::of(Formula rest, Formula value) {
  const std::uint64_t key = (std::uint64_t{rest} << 32) | value;
  if (const auto known = decided_.find(key); known != decided_.end()) return known->second;
  const OpenQuestions::Certainty certainty(questions_);
  std::vector<Choice> found;
  each(rest, value, [&](const Choice& choice) {
    found.push_back(choice);
    if (found.size() > kMostChoices) tables_.expressions.exhaust();
    return false;
  });
  std::vector<Choice> merged;
  for (const Choice& choice : found) {
    const auto same = std::ranges::find(merged, choice.rest, &Choice::rest);
    if (same == merged.end())
      merged.push_back(choice);
    else
      same->value = formulas_.any(same->value, choice.value);
  }
  if (certainty.holds() && !tables_.expressions.exhausted()) decided_[key] = merged;
  return merged;
}

// What is left if the value satisfies what is asked, or does not.
Formula Decisions::given(Formula rest, Formula asked, bool answer) {
  return formulas_.map_mentioned(rest, FormulaStore::mentions_asked(asked), [&](const Demand& c, bool negated) {
    if (c.kind == Kind::value && c.a == asked) return constant(answer != negated);
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    return negated ? formulas_.no(self) : self;
  });
}

bool Decisions::each(Formula rest, Formula value, const UseChoice& use) {
  if (rest == FormulaStore::never || value == FormulaStore::never || !tables_.goes_on()) return false;
  if (!formulas_.mentions(rest, FormulaStore::mentions_value)) return use({value, rest});
  const Formula asked = formulas_.first_value(rest).a;
  const Formula if_so = given(rest, asked, true), if_not = given(rest, asked, false);
  if (if_so == if_not) return each(if_so, value, use);
  const Formula with = formulas_.all(value, asked), without = formulas_.all(value, formulas_.no(asked));
  if (if_not == FormulaStore::never) return each(if_so, with, use);
  if (if_so == FormulaStore::never) return each(if_not, without, use);
  if (values_.possible(with) && each(if_so, with, use)) return true;
  return values_.possible(without) && each(if_not, without, use);
}

bool Decisions::finished(Formula formula) {
  if (formula == FormulaStore::always) return true;
  const auto [known, fresh] = finished_.try_emplace(formula, false);
  if (!fresh) return known->second;
  return finished_[formula] = formulas_.map(formula, [](const Demand& c, bool negated) {
    bool holds = true;
    if (c.kind == Kind::required) holds = false;
    if (c.kind == Kind::min_members || c.kind == Kind::min_items) holds = c.a == 0;
    if (c.kind == Kind::contains) holds = c.b == 0;
    return constant(holds != negated);
  }) == FormulaStore::always;
}

}  // namespace espalier::grammar
