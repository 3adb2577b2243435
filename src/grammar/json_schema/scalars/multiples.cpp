#include "grammar/json_schema/scalars/multiples.h"

#include <algorithm>

#include "grammar/automaton/hashing.h"
#include "grammar/json_schema/formulas/formula_steps.h"
#include "grammar/json_schema/payload.h"

namespace espalier::grammar {
namespace {

// Whether there is a multiple among the `scale` values that begin with one of this remainder, further digits and all.
bool reaches_multiple(std::uint64_t remainder, std::uint64_t scale, std::uint64_t units) {
  return (units - remainder * scale % units) % units < scale;
}

}  // namespace

std::size_t Multiples::Hash::operator()(const Multiple& m) const {
  std::uint64_t hash = static_cast<std::uint64_t>(m.phase) * 2u + m.integers;
  for (const std::uint32_t field : {m.factor, m.remainder, m.fraction_digits, m.least, m.most}) hash = mix(hash, field);
  return hash;
}

// Bounds are moved to the multiples next to them: then whatever begins as a bound does can be completed to it, and
// behind another digit only the number of those to come counts.
class Multiples::Between {
 public:
  Between(Multiples& multiples, std::uint32_t factor, bool integers)
      : multiples_(multiples), store_(multiples.store_), start_{factor, 0, 0, Phase::sign, integers} {}

  Expression magnitudes(const NumberBound& low, const std::optional<NumberBound>& high) {
    const Factor factor = multiples_.factor_of(start_);
    low_ = next_multiple(low, factor);
    const auto shortest = static_cast<std::uint32_t>(low_.whole.size());
    if (!high) return store_.either(of_length(shortest, true, false), longer(shortest, ExpressionStore::unbounded));
    const std::optional<Decimal> last = last_multiple(*high, factor);
    if (!last || compare(*last, low_) < 0) return ExpressionStore::nothing;
    high_ = *last;
    const auto longest = static_cast<std::uint32_t>(high_.whole.size());
    if (shortest == longest) return of_length(longest, true, true);
    return store_.either(
        {of_length(shortest, true, false), longer(shortest, longest - 2), of_length(longest, false, true)});
  }

 private:
  using Phase = Multiple::Phase;

  // Behind what decides that it lies between the bounds.
  Expression rest(const Multiple& state) {
    return multiples_.can_go_on(state) ? multiples_.multiple(state) : ExpressionStore::nothing;
  }

  template <class Rest>
  Expression digits(const Multiple& state, Phase phase, char least, char most, Rest rest) {
    std::vector<Expression> ways;
    for (char digit = least; digit <= most; ++digit) {
      const auto next = multiples_.after_digit(state, phase, static_cast<unsigned>(digit - '0'));
      if (!next) continue;
      ways.push_back(store_.concat(store_.bytes(ByteSet::of(static_cast<unsigned char>(digit))), rest(*next, digit)));
    }
    return store_.either(std::move(ways));
  }

  // A first digit and least..most more.
  Expression longer(std::uint32_t least, std::uint32_t most) {
    if (least > most) return ExpressionStore::nothing;
    Multiple state = start_;
    state.least = least + 1;
    state.most = most == ExpressionStore::unbounded ? most : most + 1;
    return digits(state, Phase::whole, '1', '9', [&](const Multiple& next, char) { return rest(next); });
  }

  Expression of_length(std::uint32_t length, bool at_low, bool at_high) {
    length_ = length;
    return whole(start_, 0, at_low, at_high);
  }

  Expression whole(Multiple state, std::uint32_t place, bool at_low, bool at_high) {
    if (!at_low && !at_high) {
      state.least = state.most = length_ - place;
      return rest(state);
    }
    if (place == length_) return point(state, at_low, at_high);
    const char first = place == 0 && length_ > 1 ? '1' : '0';
    const char least = at_low ? low_.whole[place] : first, most = at_high ? high_.whole[place] : '9';
    return digits(state, Phase::whole, least, most, [&](const Multiple& next, char digit) {
      return whole(next, place + 1, at_low && digit == least, at_high && digit == most);
    });
  }

  Expression point(const Multiple& state, bool at_low, bool at_high) {
    const bool ends = multiples_.can_end(state) && (!at_low || low_.fraction.empty());
    const Expression end = ends ? ExpressionStore::empty : ExpressionStore::nothing;
    if (state.integers) return end;
    const Multiple behind{state.factor, state.remainder, 0, Phase::fraction, false};
    return store_.either(end, store_.concat(store_.text("."), fraction(behind, at_low, at_high)));
  }

  static char fraction_digit(const Decimal& bound, std::size_t place) {
    return place < bound.fraction.size() ? bound.fraction[place] : '0';
  }

  Expression fraction(const Multiple& state, bool at_low, bool at_high) {
    if ((!at_low && !at_high) || state.phase == Phase::zeros) return rest(state);
    const std::uint32_t place = state.fraction_digits;
    const bool ends = multiples_.can_end(state) && (!at_low || place >= low_.fraction.size());
    const char least = at_low ? fraction_digit(low_, place) : '0', most = at_high ? fraction_digit(high_, place) : '9';
    const Expression more = digits(state, Phase::fraction, least, most, [&](const Multiple& next, char digit) {
      return fraction(next, at_low && digit == least, at_high && digit == most);
    });
    return ends ? store_.either(ExpressionStore::empty, more) : more;
  }

  Multiples& multiples_;
  ExpressionStore& store_;
  Multiple start_;
  Decimal low_, high_;
  std::uint32_t length_ = 0;
};

Expression Multiples::between(std::uint32_t factor, bool integers, const std::optional<NumberBound>& low,
                              const std::optional<NumberBound>& high) {
  if (!low && !high) return of(factor, integers);
  Between ways(*this, factor, integers);
  return either_sign(store_, low, high, [&](const NumberBound& from, const std::optional<NumberBound>& to) {
    return ways.magnitudes(from, to);
  });
}

void Multiples::join(std::vector<std::uint32_t>& factors) {
  std::vector<std::uint32_t> joined;
  for (const std::uint32_t factor : factors) {
    bool alone = true;
    for (std::uint32_t& other : joined) {
      const auto common = common_multiple(tables_.decimals[factor], tables_.decimals[other]);
      if (!common || !alone) continue;
      other = tables_.decimal(*common);
      alone = false;
    }
    if (alone) joined.push_back(factor);
  }
  factors = std::move(joined);
}

Factor Multiples::factor_of(const Multiple& state) const {
  const Factor factor = grammar::factor_of(tables_.decimals[state.factor]);
  return state.integers ? integers_of(factor) : factor;
}

bool Multiples::can_end(const Multiple& state) const {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(state);
  switch (state.phase) {
    case Phase::zero:
    case Phase::whole:
      return state.least == 0 && state.remainder * power_of_ten(factor.places) % factor.units == 0;
    case Phase::fraction:
      return state.fraction_digits > 0 &&
             state.remainder * power_of_ten(factor.places - state.fraction_digits) % factor.units == 0;
    case Phase::zeros:
      return state.remainder == 0;
    default:
      return false;
  }
}

// Nine whole digits can always be completed to a multiple; fewer, and those of the fraction, not always.
bool Multiples::can_go_on(const Multiple& state) const {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(state);
  if (state.phase == Phase::zeros) return state.remainder == 0;
  if (state.phase == Phase::fraction) {
    return reaches_multiple(state.remainder, power_of_ten(factor.places - state.fraction_digits), factor.units);
  }
  if (state.phase != Phase::whole) return true;
  for (std::uint32_t more = state.least; more <= state.most; ++more) {
    if (more + factor.places >= kMostFactorDigits) return true;
    if (reaches_multiple(state.remainder, power_of_ten(more + factor.places), factor.units)) return true;
  }
  return false;
}

Expression Multiples::multiple(const Multiple& state) {
  const auto [place, fresh] = numbers_.try_emplace(state, static_cast<std::uint32_t>(multiples_.size()));
  if (fresh) multiples_.push_back(state);
  return store_.later(payload_of(Payload::multiple, place->second), can_end(state), true);
}

std::uint32_t Multiples::least(std::uint32_t number) const {
  const Multiple& state = multiples_[number];
  if (state.phase != Multiple::Phase::whole) return 0;
  const Factor factor = factor_of(state);
  std::uint32_t digits = state.least;
  while (digits + factor.places < kMostFactorDigits &&
         !reaches_multiple(state.remainder, power_of_ten(digits + factor.places), factor.units))
    ++digits;
  return digits;
}

std::optional<Multiple> Multiples::after_digit(Multiple state, Multiple::Phase phase, unsigned digit) const {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(state);
  const bool first = state.phase != phase;
  state.phase = phase;
  if (phase == Phase::fraction && state.fraction_digits == factor.places) {
    if (digit != 0) return std::nullopt;
    state.phase = Phase::zeros;
    return state;
  }
  state.remainder = static_cast<std::uint32_t>((state.remainder * std::uint64_t{10} + digit) % factor.units);
  if (phase == Phase::fraction) {
    ++state.fraction_digits;
    return state;
  }
  if (digit == 0 && first) state.phase = Phase::zero;
  state.least = less_one(state.least);
  state.most = less_one(state.most);
  return state;
}

Expression Multiples::digit_steps(const Multiple& state, Multiple::Phase phase) {
  std::vector<Expression> ways;
  for (unsigned digit = 0; digit <= 9; ++digit) {
    const auto next = after_digit(state, phase, digit);
    if (!next || !can_go_on(*next)) continue;
    ways.push_back(store_.concat(store_.bytes(ByteSet::of(static_cast<unsigned char>('0' + digit))), multiple(*next)));
  }
  return store_.either(std::move(ways));
}

Expression Multiples::expand(std::uint32_t number) {
  using Phase = Multiple::Phase;
  const Multiple state = multiples_[number];  // a copy: they move when more come
  std::vector<Expression> ways;
  if (can_end(state)) ways.push_back(ExpressionStore::empty);
  if (state.phase == Phase::start) {
    ways.push_back(store_.concat(store_.text("-"), multiple({state.factor, 0, 0, Phase::sign, state.integers})));
  }
  const bool whole = state.phase == Phase::start || state.phase == Phase::sign || state.phase == Phase::whole;
  if (whole && state.most > 0) ways.push_back(digit_steps(state, Phase::whole));
  if (!state.integers && state.least == 0 && (state.phase == Phase::zero || state.phase == Phase::whole)) {
    const Multiple after_point{state.factor, state.remainder, 0, Phase::fraction, false};
    if (can_go_on(after_point)) ways.push_back(store_.concat(store_.text("."), multiple(after_point)));
  }
  if (state.phase == Phase::fraction) ways.push_back(digit_steps(state, Phase::fraction));
  if (state.phase == Phase::zeros) ways.push_back(store_.concat(store_.text("0"), multiple(state)));
  return store_.either(std::move(ways));
}

}  // namespace espalier::grammar
