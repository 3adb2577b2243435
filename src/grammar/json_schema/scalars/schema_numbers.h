// schema_numbers.h: the numbers that a formula allows, as one expression.
//
// Under a bound or a factor they have no exponent, integers no fraction; listed ones are written as the schema has
// them (number_text.h).
// Threads: as the store. Fails: never; beyond the store's limits results are `nothing`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/json_schema/scalars/multiples.h"

namespace espalier::grammar {

// Makes it. Formulas are restricted to numbers.
class SchemaNumbers {
 public:
  SchemaNumbers(SchemaTables& tables, Multiples& multiples)
      : store_(tables.expressions), formulas_(tables.formulas), tables_(tables), multiples_(multiples) {}

  Expression text(Formula formula);  // as they may be written: with exponents where nothing is asked of them
  Expression part(Formula formula);  // without exponents
  std::size_t size() const { return numbers_.size(); }

 private:
  // Conditions on one number. Bounds and integers together become one range; the rest intersects it.
  struct Conjunction {
    std::optional<NumberBound> low, high;
    bool integers = false;
    std::vector<Expression> conditions;
    std::optional<std::vector<std::uint32_t>> listed;
    std::vector<std::uint32_t> factors;

    void raise(const NumberBound& bound);
    void lower(const NumberBound& bound);
  };

  void add(Conjunction& all, Formula part);
  void add(Conjunction& all, const Demand& demand, bool negated);
  Expression range(Conjunction& all);
  Expression fitting(std::span<const std::uint32_t> listed, std::span<const Expression> conditions);
  Expression except(Expression numbers) { return store_.both(plain_number(store_), store_.negation(numbers)); }

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  Multiples& multiples_;
  IncrementallyFreed<std::unordered_map<Formula, Expression>> numbers_;
};

}  // namespace espalier::grammar
