// array_completion.h: whether an array can be completed, also where its items must differ (or must not): which values
// were written, and whether enough others are left.
// Threads: one at a time. Fails: never; beyond the limits of the stores the answer is "no".
// Source:  P. Hall, "On Representatives of Subsets" (1935), for items that each need a value of their own.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "grammar/json_schema/arrays/array_items.h"
#include "grammar/json_schema/values/value_counts.h"

namespace espalier::grammar {

// Looks for items that complete arrays.
class ArrayCompletion {
 public:
  ArrayCompletion(SchemaTables& tables, Values& values, Decisions& decisions, ArrayItems& items, ValueCounts& counts,
                  WrittenSets& written)
      : formulas_(tables.formulas),
        values_(values),
        decisions_(decisions),
        items_(items),
        counts_(counts),
        written_(written) {}

  bool search(const Container& array);
  // What an item may be without what others need.
  Formula leaving_others_theirs(const Member& item);

 private:
  bool search_any(const Container& array);
  bool search_unique(const Container& array);
  std::uint64_t rivals(const Container& array, Formula value);
  bool can_differ(const Container& array, Formula more, std::uint64_t count);
  bool fits_every_group(const std::vector<Formula>& kinds, const std::vector<Formula>& unknown, Formula more,
                        std::uint64_t count);

  FormulaStore& formulas_;
  Values& values_;
  Decisions& decisions_;
  ArrayItems& items_;
  ValueCounts& counts_;
  WrittenSets& written_;
  // Values of which some array's items may have to leave one to others, so that all can differ.
  std::set<Formula> scarce_values_;
};

}  // namespace espalier::grammar
