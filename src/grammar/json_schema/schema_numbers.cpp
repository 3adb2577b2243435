// The numbers that a formula allows, as one expression; multiples digit by digit.
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
  for (const std::uint32_t factor : factors) conditions.push_back(multiple_of(factor, integers));
  if (low || high)
    conditions.push_back(number_range(store_, low, high, integers));
  else if (integers && factors.empty())
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

namespace {

struct Factor {  // units / 10^places
  std::uint64_t units = 1;
  std::uint32_t places = 0;
};

Factor factor_of(const Decimal& decimal) {
  return {std::stoull(decimal.whole + decimal.fraction), static_cast<std::uint32_t>(decimal.fraction.size())};
}

std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

}  // namespace

Expression SchemaGrammar::multiple_of(std::uint32_t factor, bool integers) {
  return multiple({factor, 0, 0, Multiple::Phase::start, integers});
}

bool SchemaGrammar::can_end(const Multiple& state) {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  switch (state.phase) {
    case Phase::zero:
    case Phase::whole:
      return state.remainder * power_of_ten(factor.places) % factor.units == 0;
    case Phase::fraction:
      return state.fraction_digits > 0 &&
             state.remainder * power_of_ten(factor.places - state.fraction_digits) % factor.units == 0;
    case Phase::zeros:
      return state.remainder == 0;
    default:
      return false;
  }
}

// Whole digits can always be completed to a multiple; those of the fraction are limited in number.
bool SchemaGrammar::can_go_on(const Multiple& state) {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  if (state.phase == Phase::zeros) return state.remainder == 0;
  if (state.phase != Phase::fraction) return true;
  const std::uint64_t scale = power_of_ten(factor.places - state.fraction_digits);
  return (factor.units - state.remainder * scale % factor.units) % factor.units < scale;
}

Expression SchemaGrammar::multiple(Multiple state) {
  std::uint64_t key = (std::uint64_t{state.factor} << 40) ^ (std::uint64_t{state.remainder} << 8);
  key ^= (std::uint64_t{state.fraction_digits} << 4) ^ (std::uint64_t{state.integers} << 3) ^
         static_cast<std::uint64_t>(state.phase);
  const auto [place, fresh] = multiple_numbers_.try_emplace(key, static_cast<std::uint32_t>(multiples_.size()));
  if (fresh) multiples_.push_back(state);
  return store_.later(place->second * kPayloads + kMultiple, can_end(state), true);
}

Expression SchemaGrammar::digit_steps(const Multiple& state, Multiple::Phase phase) {
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  std::vector<Expression> ways;
  const bool in_fraction = phase == Multiple::Phase::fraction;
  for (unsigned digit = 0; digit <= 9; ++digit) {
    Multiple next = state;
    next.phase = phase;
    if (in_fraction && state.fraction_digits == factor.places) {
      if (digit != 0) break;
      next.phase = Multiple::Phase::zeros;
    } else {
      next.remainder = static_cast<std::uint32_t>((state.remainder * std::uint64_t{10} + digit) % factor.units);
      next.fraction_digits += in_fraction;
    }
    if (phase == Multiple::Phase::whole && digit == 0 && state.phase != Multiple::Phase::whole) {
      next.phase = Multiple::Phase::zero;
    }
    if (can_go_on(next)) ways.push_back(store_.concat(store_.bytes(ByteSet::of('0' + digit)), multiple(next)));
  }
  return store_.either(std::move(ways));
}

Expression SchemaGrammar::expand(const Multiple& state) {
  using Phase = Multiple::Phase;
  std::vector<Expression> ways;
  if (can_end(state)) ways.push_back(ExpressionStore::empty);
  if (state.phase == Phase::start) {
    ways.push_back(store_.concat(store_.text("-"), multiple({state.factor, 0, 0, Phase::sign, state.integers})));
  }
  if (state.phase == Phase::start || state.phase == Phase::sign || state.phase == Phase::whole) {
    ways.push_back(digit_steps(state, Phase::whole));
  }
  if (!state.integers && (state.phase == Phase::zero || state.phase == Phase::whole)) {
    const Multiple behind_point{state.factor, state.remainder, 0, Phase::fraction, false};
    if (can_go_on(behind_point)) ways.push_back(store_.concat(store_.text("."), multiple(behind_point)));
  }
  if (state.phase == Phase::fraction) ways.push_back(digit_steps(state, Phase::fraction));
  if (state.phase == Phase::zeros) ways.push_back(store_.concat(store_.text("0"), multiple(state)));
  return store_.either(std::move(ways));
}

}  // namespace espalier::grammar
