// schema_strings.h: the strings that a formula allows, as one expression over what stands between the quotes.
//
// Strings without a pattern may be written in every way that JSON has, others as Spelling has them.
// Threads: as the store. Fails: never; beyond the store's limits results are `nothing`.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/incremental_free.h"
#include "grammar/json_schema/schema_tables.h"
#include "grammar/json_schema/written_form.h"

namespace espalier::grammar {

// Makes it. Formulas are restricted to strings.
class SchemaStrings {
 public:
  SchemaStrings(SchemaTables& tables, const WrittenForm& form)
      : store_(tables.expressions), formulas_(tables.formulas), tables_(tables), form_(form) {}

  Expression text(Formula formula);  // as they may be written
  Expression part(Formula formula);  // as Spelling has them
  // What a string is like that must be none of some: the same without that. Nothing when nothing is excluded.
  Expression without_exclusions(Formula formula);
  // Strings without those that are others in another spelling: \u001f and \u001F are one.
  Expression each_once(Expression strings);
  std::size_t size() const { return strings_.size(); }

 private:
  Expression part_of_one(Formula formula);
  Expression part_of_any(Formula formula);
  Expression part_of_all(Formula formula);
  Expression all_of_format(std::uint32_t partial_format);
  Expression one_of(std::span<const std::uint32_t> texts);  // of tables_.texts

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  Expression each_text_once_ = ExpressionStore::nothing;  // made when it is needed
  IncrementallyFreed<std::unordered_map<Formula, Expression>> strings_;
};

}  // namespace espalier::grammar
