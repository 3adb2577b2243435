// formula_steps.h: small questions about formulas that several readers of them ask: their conjuncts, what they list.
// Threads: pure functions over a store that nobody changes meanwhile. Fails: never.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "grammar/json_schema/formulas/formula.h"

namespace espalier::grammar {

inline Formula constant(bool value) {
  return value ? FormulaStore::always : FormulaStore::never;
}

// A count of members that must or may still come, once one has come.
inline std::uint32_t less_one(std::uint32_t count) {
  return count == 0 || count == kUnbounded ? count : count - 1;
}

// The parts of a conjunction, or the formula alone. Requires: `formula` lives as long as what is given back.
inline std::span<const Formula> conjuncts(const FormulaStore& formulas, const Formula& formula) {
  return formulas.op(formula) == FormulaStore::Op::all ? formulas.parts(formula) : std::span(&formula, 1);
}

// Whether it is made of some constraint of this kind.
inline bool speaks_of(const FormulaStore& formulas, Formula formula, Demand::Kind kind) {
  bool found = false;
  formulas.each(formula, [&](const Demand& c, bool) { found = found || c.kind == kind; });
  return found;
}

// The texts that are allowed, when they are listed: numbers of texts (strings) or of decimals (numbers).
std::optional<std::vector<std::uint32_t>> literals(const FormulaStore& formulas, Formula formula);
// Whether it allows some of a list at most: the texts of these are paths of their own and no word.
bool is_listed(const FormulaStore& formulas, Formula formula);
bool excludes_text(const FormulaStore& formulas, Formula formula);
// The number of the first schema that all values of the formula satisfy.
std::optional<std::uint32_t> schema_in(const FormulaStore& formulas, Formula formula);

}  // namespace espalier::grammar
