// scalars.h: values that are neither arrays nor objects: their texts, and how many there are.
// Threads: as the store. Fails: never; beyond the store's limits results are `nothing`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grammar/json_schema/formulas/restrictions.h"
#include "grammar/json_schema/scalars/schema_numbers.h"
#include "grammar/json_schema/scalars/schema_strings.h"

namespace espalier::grammar {

// Of any formula, what it says of them.
class Scalars {
 public:
  Scalars(SchemaTables& tables, const WrittenForm& form, Restrictions& restrictions)
      : store_(tables.expressions),
        formulas_(tables.formulas),
        form_(form),
        restrictions_(restrictions),
        multiples_(tables),
        numbers_(tables, multiples_),
        strings_(tables, form) {}

  Expression text(Formula formula);
  // A number is counted in its shortest form only: 1 and 1.0 are one value.
  std::uint64_t count(Formula formula, std::uint64_t enough);
  // Adds their JSON; false when they are more than `most`.
  bool list(Formula formula, std::size_t most, std::vector<std::string>& texts);

  SchemaStrings& strings() { return strings_; }
  Multiples& multiples() { return multiples_; }
  const Multiples& multiples() const { return multiples_; }
  std::size_t size() const { return numbers_.size() + strings_.size(); }

 private:
  bool allows_truth(Formula formula, bool value);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  const WrittenForm& form_;
  Restrictions& restrictions_;
  Multiples multiples_;
  SchemaNumbers numbers_;
  SchemaStrings strings_;
};

}  // namespace espalier::grammar
