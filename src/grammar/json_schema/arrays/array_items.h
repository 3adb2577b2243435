// array_items.h: arrays, item by item: what an item must satisfy, and what is then left of the formula.
// Threads: one at a time. Fails: never; beyond the limits of the stores there are no items.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/json_schema/formulas/decisions.h"
#include "grammar/json_schema/formulas/restrictions.h"
#include "grammar/json_schema/values/written_sets.h"

namespace espalier::grammar {

// Tells the ways in which arrays begin and go on.
class ArrayItems {
 public:
  ArrayItems(SchemaTables& tables, Restrictions& restrictions, Decisions& decisions, WrittenSets& written)
      : formulas_(tables.formulas), restrictions_(restrictions), decisions_(decisions), written_(written) {}

  std::optional<Container> open(Formula formula);
  std::vector<Member> next(const Container& array);
  // Ways in which the next item can be one of those whose values are not known. Whether theirs is a value that it may
  // have is taken for granted.
  std::vector<Member> repeating(const Container& array);
  // The unknown items behind this one, if anything depends on its value.
  std::uint32_t with_unknown(const Member& item);

 private:
  Formula at_item(Formula formula, std::uint32_t place, std::uint32_t written);

  FormulaStore& formulas_;
  Restrictions& restrictions_;
  Decisions& decisions_;
  WrittenSets& written_;
};

}  // namespace espalier::grammar
