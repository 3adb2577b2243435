// number_text.h: JSON numbers as texts: ranges of them and multiples, digit by digit.
//
// Where a bound or a factor is involved, numbers are written without exponent; every other way of writing a value
// (-0, trailing zeros of the fraction) is read, so that a complement is exact too; but for -0 in ranges from 0 on.
// Units:   decimal digits; numbers have any length.
// Threads: pure functions on one store. Fails: decimal_of() gives nothing for what is no JSON number or has too many
//          digits when written out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {

// A decimal number of any length, in digits.
struct Decimal {
  bool negative = false;     // never for 0
  std::string whole = "0";   // no leading zeros
  std::string fraction;      // no trailing zeros
  std::string text() const;  // shortest: "-1.5", "0", "120"
  bool is_integer() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

inline constexpr std::size_t kMostDigits = 2000;  // of numbers in schemas
// `most_digits`: before the point, and behind it.
std::optional<Decimal> decimal_of(std::string_view json_number, std::size_t most_digits = kMostDigits);
Decimal cut(Decimal value, std::size_t digits);           // what is left with so many digits behind the point
Decimal next_decimal(Decimal value, std::size_t digits);  // further from 0 by one of the last of so many
int compare(const Decimal& a, const Decimal& b);          // < 0, 0, > 0

// An end of a range of numbers, included or not.
struct NumberBound {
  Decimal at;
  bool excluded = false;
};

struct Factor {  // units / 10^places
  std::uint64_t units = 1;
  std::uint32_t places = 0;
};
inline constexpr std::uint32_t kMostFactorDigits = 9;  // of the units
std::uint64_t power_of_ten(std::uint32_t exponent);    // Requires: below 20
Factor factor_of(const Decimal& decimal);              // Requires: above 0, no more digits
Factor integers_of(const Factor& factor);              // of its multiples the integers are those of this one
// Nothing when it has more digits than a factor may have.
std::optional<Decimal> common_multiple(const Decimal& a, const Decimal& b);
// The first multiple from a bound of 0 or more on, and the last one before it (from 0 on).
Decimal next_multiple(const NumberBound& low, const Factor& factor);
std::optional<Decimal> last_multiple(const NumberBound& high, const Factor& factor);

// Numbers between the bounds that are there, from their magnitudes: `between` is given the bounds of these.
template <class Between>
Expression either_sign(ExpressionStore& store, const std::optional<NumberBound>& low,
                       const std::optional<NumberBound>& high, Between between) {
  if (low && high) {
    const int order = compare(low->at, high->at);
    if (order > 0 || (order == 0 && (low->excluded || high->excluded))) return ExpressionStore::nothing;
  }
  const auto magnitude = [](NumberBound bound) {
    bound.at.negative = false;
    return bound;
  };
  std::vector<Expression> ways;
  const bool may_be_positive = !high || !high->at.negative;
  if (may_be_positive) {
    const NumberBound from = low && !low->at.negative ? *low : NumberBound{};
    ways.push_back(between(from, high));
  }
  if (!low || low->at.negative) {
    NumberBound from;
    if (high && (high->at.negative || high->at.is_zero())) from = magnitude(*high);
    std::optional<NumberBound> to;
    if (low) to = magnitude(*low);
    ways.push_back(store.concat(store.text("-"), between(from, to)));
  }
  return store.either(std::move(ways));
}

// Numbers between the bounds that are there. `integers`: only those written as -?digits.
Expression number_range(ExpressionStore& store, const std::optional<NumberBound>& low,
                        const std::optional<NumberBound>& high, bool integers);
// All ways of writing this value without exponent.
Expression number_equal_to(ExpressionStore& store, const Decimal& value);

Expression any_number(ExpressionStore& store);       // with exponents
Expression plain_number(ExpressionStore& store);     // without
Expression shortest_number(ExpressionStore& store);  // the shortest of a value's texts, as Decimal::text()
Expression integer_text(ExpressionStore& store);     // -?digits
Expression integral_number(ExpressionStore& store);  // integers, also written with zeros behind the point

}  // namespace espalier::grammar
