// decisions.h: what is left of a formula about an array or object once one of its values is known to satisfy what.
//
// Reading an item or a member replaces each constraint by what is left of it; what it asks of the value is a constraint
// `value` then. Deciding these one by one tells the ways in which the value can satisfy schemas, each with what is then
// left: so allOf, anyOf, oneOf, not, if/then/else and dependencies all come out exact.
// Threads: one at a time.
// Fails:   never; beyond kMostChoices ways, and beyond the limits of the stores, the store is exhausted.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/json_schema/formulas/open_questions.h"
#include "grammar/json_schema/values/values.h"

namespace espalier::grammar {

// What a value satisfies, and what is left for the values behind it.
struct Choice {
  Formula value = FormulaStore::always, rest = FormulaStore::always;
};
using UseChoice = std::function<bool(const Choice&)>;  // true: no more are wanted

// Decides what values satisfy.
class Decisions {
 public:
  Decisions(SchemaTables& tables, Values& values, OpenQuestions& questions)
      : tables_(tables), formulas_(tables.formulas), values_(values), questions_(questions) {}

  // The ways in which the value of a member can satisfy schemas, each with what is then left to satisfy.
  std::vector<Choice> of(Formula rest, Formula value);
  // One by one; the same rest may come with several values. True when no more were wanted.
  bool each(Formula rest, Formula value, const UseChoice& use);
  // Whether the array or object may end here.
  bool finished(Formula rest);
  std::size_t size() const { return decided_.size() + finished_.size(); }

 private:
  Formula given(Formula rest, Formula asked, bool answer);

  SchemaTables& tables_;
  FormulaStore& formulas_;
  Values& values_;
  OpenQuestions& questions_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, std::vector<Choice>>> decided_;
  IncrementallyFreed<std::unordered_map<Formula, bool>> finished_;
};

}  // namespace espalier::grammar
