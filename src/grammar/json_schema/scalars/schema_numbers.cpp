#include "grammar/json_schema/scalars/schema_numbers.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

void SchemaNumbers::Conjunction::raise(const NumberBound& bound) {
  const int order = low ? compare(bound.at, low->at) : 1;
  if (order > 0 || (order == 0 && bound.excluded)) low = bound;
}

void SchemaNumbers::Conjunction::lower(const NumberBound& bound) {
  const int order = high ? compare(bound.at, high->at) : -1;
  if (order < 0 || (order == 0 && bound.excluded)) high = bound;
}

Expression SchemaNumbers::text(Formula formula) {
  return formula == FormulaStore::always ? any_number(store_) : part(formula);
}

Expression SchemaNumbers::part(Formula formula) {
  if (formula == FormulaStore::always) return plain_number(store_);
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = numbers_.find(formula); known != numbers_.end()) return known->second;
  if (formulas_.op(formula) == FormulaStore::Op::any) {
    std::vector<Expression> ways;
    for (const Formula way : formulas_.parts(formula)) ways.push_back(part(way));
    return numbers_[formula] = store_.either(std::move(ways));
  }
  Conjunction all;
  for (const Formula condition : conjuncts(formulas_, formula)) add(all, condition);
  const Expression result = range(all);
  return numbers_[formula] = result;
}

void SchemaNumbers::add(Conjunction& all, Formula condition) {
  using Form = FormulaStore::Op;
  auto texts = literals(formulas_, condition);
  const Form form = formulas_.op(condition);
  if (texts && !all.listed)
    all.listed = std::move(texts);
  else if (form == Form::one || form == Form::negated)
    add(all, formulas_.demand(condition), form == Form::negated);
  else
    all.conditions.push_back(part(condition));
}

void SchemaNumbers::add(Conjunction& all, const Demand& c, bool negated) {
  switch (c.kind) {
    case Kind::type:
      if (c.a & kInteger)
        all.integers = true;
      else
        all.conditions.push_back(except(integral_number(store_)));
      break;
    case Kind::at_least:
      negated ? all.lower({tables_.decimals[c.a], c.b == 0}) : all.raise({tables_.decimals[c.a], c.b == 1});
      break;
    case Kind::at_most:
      negated ? all.raise({tables_.decimals[c.a], c.b == 0}) : all.lower({tables_.decimals[c.a], c.b == 1});
      break;
    case Kind::equals: {
      const Expression equal = number_equal_to(store_, tables_.decimals[c.a]);
      all.conditions.push_back(negated ? except(equal) : equal);
      break;
    }
    case Kind::multiple:
      if (negated)
        all.conditions.push_back(except(multiples_.of(c.a, false)));
      else
        all.factors.push_back(c.a);
      break;
    default:
      break;
  }
}

Expression SchemaNumbers::range(Conjunction& all) {
  multiples_.join(all.factors);
  for (const std::uint32_t factor : all.factors)
    all.conditions.push_back(multiples_.between(factor, all.integers, all.low, all.high));
  if (all.factors.empty() && (all.low || all.high))
    all.conditions.push_back(number_range(store_, all.low, all.high, all.integers));
  else if (all.factors.empty() && all.integers)
    all.conditions.push_back(integer_text(store_));
  return all.listed ? fitting(*all.listed, all.conditions) : store_.both(std::move(all.conditions));
}

// Of what is listed those that meet the conditions, as the schema writes them.
Expression SchemaNumbers::fitting(std::span<const std::uint32_t> listed, std::span<const Expression> conditions) {
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
  return store_.either(std::move(ways));
}

}  // namespace espalier::grammar
