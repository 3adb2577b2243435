// The numbers that a formula allows, as one expression.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

namespace espalier::grammar {

Expression SchemaGrammar::number_text(Formula formula) {
  if (formula == FormulaStore::always) return any_number(store_);
  return number_part(formula);
}

Expression SchemaGrammar::number_part(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::always) return plain_number(store_);
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = numbers_.find(formula); known != numbers_.end()) return known->second;
  const Form op = formulas_.op(formula);
  if (op == Form::any) {
    std::vector<Expression> ways;
    for (const Formula part : formulas_.parts(formula)) ways.push_back(number_part(part));
    return numbers_[formula] = store_.either(std::move(ways));
  }
  // A conjunction: bounds and integers together become one range; the rest intersects it.
  std::optional<NumberBound> low, high;
  bool integers = false;
  std::vector<Expression> conditions;
  std::vector<std::uint32_t> listed, factors;
  bool is_listed = false;
  const auto raise = [&](const NumberBound& bound) {
    const int order = low ? compare(bound.at, low->at) : 1;
    if (order > 0 || (order == 0 && bound.excluded)) low = bound;
  };
  const auto lower = [&](const NumberBound& bound) {
    const int order = high ? compare(bound.at, high->at) : -1;
    if (order < 0 || (order == 0 && bound.excluded)) high = bound;
  };
  for (const Formula part : op == Form::all ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1)) {
    const Form kind = formulas_.op(part);
    if (auto texts = literals(part); texts && !is_listed) {
      listed = std::move(*texts);
      is_listed = true;
      continue;
    }
    if (kind != Form::one && kind != Form::negated) {
      conditions.push_back(number_part(part));
      continue;
    }
    const Demand c = formulas_.demand(part);
    const bool negated = kind == Form::negated;
    const auto condition = [&](Expression e) {
      conditions.push_back(negated ? store_.both(plain_number(store_), store_.negation(e)) : e);
    };
    switch (c.kind) {
      case Kind::type:
        if (c.a & kInteger)
          integers = true;
        else
          conditions.push_back(store_.both(plain_number(store_), store_.negation(integral_number(store_))));
        break;
      case Kind::at_least:
        negated ? lower({tables_.decimals[c.a], c.b == 0}) : raise({tables_.decimals[c.a], c.b == 1});
        break;
      case Kind::at_most:
        negated ? raise({tables_.decimals[c.a], c.b == 0}) : lower({tables_.decimals[c.a], c.b == 1});
        break;
      case Kind::equals:
        condition(number_equal_to(store_, tables_.decimals[c.a]));
        break;
      case Kind::multiple:
        if (negated)
          condition(multiple_of(c.a, false));
        else
          factors.push_back(c.a);
        break;
      default:
        break;
    }
  }
  join_factors(factors);
  for (const std::uint32_t factor : factors) conditions.push_back(multiple_between(factor, integers, low, high));
  if (factors.empty() && (low || high))
    conditions.push_back(number_range(store_, low, high, integers));
  else if (factors.empty() && integers)
    conditions.push_back(integer_text(store_));
  Expression result = ExpressionStore::nothing;
  if (is_listed) {
    std::vector<Expression> ways;
    for (const std::uint32_t number : listed) {
      std::vector<std::string> texts{tables_.decimals[number].text()};
      if (const auto more = tables_.spellings.find(number); more != tables_.spellings.end()) {
        texts.insert(texts.end(), more->second.begin(), more->second.end());
      }
      for (const std::string& text : texts) {
        const bool fits = std::ranges::all_of(conditions, [&](Expression e) { return store_.accepts(e, text); });
        if (fits) ways.push_back(store_.text(text));
      }
    }
    result = store_.either(std::move(ways));
  } else {
    result = store_.both(std::move(conditions));
  }
  return numbers_[formula] = result;
}

}  // namespace espalier::grammar
