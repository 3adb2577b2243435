#include "grammar/json_schema/formulas/formula_steps.h"

#include <algorithm>

namespace espalier::grammar {

std::optional<std::vector<std::uint32_t>> literals(const FormulaStore& formulas, Formula formula) {
  using Form = FormulaStore::Op;
  const auto is_literal = [&](Formula part) {
    return formulas.op(part) == Form::one && formulas.demand(part).kind == Demand::Kind::equals;
  };
  if (is_literal(formula)) return std::vector<std::uint32_t>{formulas.demand(formula).a};
  if (formulas.op(formula) != Form::any) return std::nullopt;
  std::vector<std::uint32_t> all;
  for (const Formula part : formulas.parts(formula)) {
    if (!is_literal(part)) return std::nullopt;
    all.push_back(formulas.demand(part).a);
  }
  return all;
}

bool is_listed(const FormulaStore& formulas, Formula formula) {
  return std::ranges::any_of(conjuncts(formulas, formula),
                             [&](Formula part) { return literals(formulas, part).has_value(); });
}

bool excludes_text(const FormulaStore& formulas, Formula formula) {
  return formulas.op(formula) == FormulaStore::Op::negated && formulas.demand(formula).kind == Demand::Kind::equals;
}

std::optional<std::uint32_t> schema_in(const FormulaStore& formulas, Formula formula) {
  for (const Formula part : conjuncts(formulas, formula)) {
    if (formulas.op(part) != FormulaStore::Op::one) continue;
    if (const Demand c = formulas.demand(part); c.kind == Demand::Kind::schema) return c.a;
  }
  return std::nullopt;
}

}  // namespace espalier::grammar
