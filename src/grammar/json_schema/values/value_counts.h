// value_counts.h: how many values satisfy a formula, and which, as far as anybody wants to know: values that must
// differ need as many.
//
// What is larger or more involved than anyone cares for counts as enough, and is not listed.
// Threads: one at a time. Fails: never.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/json_schema/arrays/array_items.h"
#include "grammar/json_schema/objects/member_steps.h"
#include "grammar/json_schema/reading/equal_values.h"
#include "grammar/json_schema/scalars/scalars.h"

namespace espalier::grammar {

// Counts and lists them.
class ValueCounts {
 public:
  // The parts that values are made of, and what reads them.
  struct Parts {
    Values& values;
    OpenQuestions& questions;
    Restrictions& restrictions;
    Decisions& decisions;
    Scalars& scalars;
    ArrayItems& items;
    MemberSteps& members;
  };
  ValueCounts(SchemaTables& tables, const Parts& parts) : formulas_(tables.formulas), tables_(tables), parts_(parts) {}

  std::uint64_t of(Formula formula, std::uint64_t enough);  // up to `enough`
  // Each as a formula, unless they are many.
  std::optional<std::vector<Formula>> listed(Formula formula);

 private:
  struct Count {  // of a formula: fewer than `enough`, or as many and maybe more
    std::uint64_t enough = 0, count = 0;
    int steps_left = 0;
  };
  struct List {
    std::vector<std::string> texts;  // each value's JSON
    int steps_left = 0;
  };

  std::uint64_t count_values(Formula formula, Count& limits);
  std::uint64_t count_arrays(const Container& array, Count& limits);
  std::uint64_t count_objects(Formula objects, Count& limits);
  std::uint64_t count_members(Formula rest, std::span<const std::uint32_t> names, Count& limits);
  bool list_values(Formula formula, List& list);
  bool list_items(const Container& array, const std::string& begun, List& list);
  bool list_objects(Formula objects, List& list);
  bool list_members(Formula rest, std::span<const std::uint32_t> names, const std::string& begun, List& list);
  std::optional<std::vector<std::string>> begun_with(const std::string& before, Formula value, List& list);
  std::optional<std::vector<std::uint32_t>> mentioned_names(Formula objects);
  bool takes_others(Formula rest);

  FormulaStore& formulas_;
  SchemaTables& tables_;
  Parts parts_;
  std::unordered_map<Formula, Count> known_;
};

}  // namespace espalier::grammar
