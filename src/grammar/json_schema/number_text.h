// number_text.h: JSON numbers as texts: ranges of them and multiples, digit by digit.
//
// Where a bound or a factor is involved, numbers are written without exponent; every other way of writing a value
// (-0, trailing zeros of the fraction) is read, so that a complement is exact too; but for -0 in ranges from 0 on.
// Units:   decimal digits; numbers have any length.
// Threads: pure functions on one store. Fails: decimal_of() gives nothing for what is no JSON number or has too many
//          digits when written out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/expression.h"

namespace espalier::grammar {

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

struct NumberBound {
  Decimal at;
  bool excluded = false;
};
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
