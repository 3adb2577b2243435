#include "grammar/json_schema/scalars/number_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

namespace espalier::grammar {
namespace {

ByteSet digits(char low, char high) {
  return low > high ? ByteSet() : ByteSet::range(static_cast<unsigned char>(low), static_cast<unsigned char>(high));
}

// Magnitudes between two decimals, as digits. A state of the comparison is the place and whether all digits so far were
// those of the lower and of the upper bound.
class Magnitudes {
 public:
  Magnitudes(ExpressionStore& store, bool integers) : store_(store), integers_(integers) {
    any_digit_ = store.bytes(digits('0', '9'));
  }

  // `high` may be absent: no upper bound.
  Expression between(const NumberBound& low, const std::optional<NumberBound>& high) {
    low_ = low;
    high_ = high;
    std::vector<Expression> ways;
    const std::size_t shortest = low.at.whole.size();
    const std::size_t longest = high ? high->at.whole.size() : shortest;
    for (std::size_t length = shortest; length <= longest; ++length) {
      length_ = length;
      known_.clear();
      ways.push_back(whole(0, length == shortest, high && length == longest));
    }
    if (!high) {
      const auto more = static_cast<std::uint32_t>(shortest);
      ways.push_back(
          store_.concat({store_.bytes(digits('1', '9')), store_.repeat(any_digit_, more), loose_fraction()}));
    }
    return store_.either(std::move(ways));
  }

 private:
  Expression digit(char d) { return store_.bytes(digits(d, d)); }

  Expression whole(std::size_t place, bool at_low, bool at_high) {
    if (place == length_) return point(at_low, at_high);
    const auto key = std::tuple(place, at_low, at_high);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const char first = place == 0 && length_ > 1 ? '1' : '0';
    const char least = at_low ? std::max(first, low_.at.whole[place]) : first;
    const char most = at_high ? high_->at.whole[place] : '9';
    std::vector<Expression> ways;
    add_digits(ways, least, most, at_low ? low_.at.whole[place] : '\0', at_high ? high_->at.whole[place] : '\0',
               [&](bool low, bool high) { return whole(place + 1, low, high); });
    return known_[key] = store_.either(std::move(ways));
  }

  // The digits least..most, each followed by what `rest` gives for "still at the lower / upper bound".
  template <class Rest>
  void add_digits(std::vector<Expression>& ways, char least, char most, char low, char high, Rest rest) {
    if (least > most) return;
    char from = least, to = most;
    if (low == least && low == high) {
      ways.push_back(store_.concat(digit(low), rest(true, true)));
      return;
    }
    if (low == least) {
      ways.push_back(store_.concat(digit(low), rest(true, false)));
      ++from;
    }
    if (high == most) {
      ways.push_back(store_.concat(digit(high), rest(false, true)));
      --to;
    }
    if (from <= to) ways.push_back(store_.concat(store_.bytes(digits(from, to)), rest(false, false)));
  }

  Expression loose_fraction() {
    if (integers_) return ExpressionStore::empty;
    return store_.optional(store_.concat(store_.text("."), store_.repeat(any_digit_, 1)));
  }

  // Behind the whole digits: the end, or a point and a fraction.
  Expression point(bool at_low, bool at_high) {
    if (!at_low && !at_high) return loose_fraction();
    const Expression end = fits(0, at_low, at_high) ? ExpressionStore::empty : ExpressionStore::nothing;
    if (integers_) return end;
    fractions_.clear();
    return store_.either(end, store_.concat(store_.text("."), fraction(0, at_low, at_high, false)));
  }

  // Whether a number may end after `place` digits of the fraction.
  bool fits(std::size_t place, bool at_low, bool at_high) const {
    if (at_low) {
      const bool equal = place >= low_.at.fraction.size();  // else the bound has more, and is larger
      if (!equal || low_.excluded) return false;
    }
    if (at_high) {
      const bool equal = place >= high_->at.fraction.size();
      if (equal && high_->excluded) return false;
    }
    return true;
  }

  static char bound_digit(const Decimal& bound, std::size_t place) {
    return place < bound.fraction.size() ? bound.fraction[place] : '0';
  }

  Expression fraction(std::size_t place, bool at_low, bool at_high, bool may_end) {
    if (!at_low && !at_high) return store_.repeat(any_digit_, may_end ? 0 : 1);
    const bool past_low = !at_low || place >= low_.at.fraction.size();
    const bool past_high = !at_high || place >= high_->at.fraction.size();
    const Expression end = may_end && fits(place, at_low, at_high) ? ExpressionStore::empty : ExpressionStore::nothing;
    if (past_low && past_high) return store_.either(end, after_bounds(at_low, at_high, may_end));
    const auto key = std::tuple(place, at_low, at_high);
    if (const auto known = fractions_.find(key); known != fractions_.end()) return store_.either(end, known->second);
    const char low = at_low ? bound_digit(low_.at, place) : '0', high = at_high ? bound_digit(high_->at, place) : '9';
    std::vector<Expression> ways;
    add_digits(ways, low, high, at_low ? low : '\0', at_high ? high : '\0',
               [&](bool still_low, bool still_high) { return fraction(place + 1, still_low, still_high, true); });
    return store_.either(end, fractions_[key] = store_.either(std::move(ways)));
  }

  // Both bounds have only zeros left.
  Expression after_bounds(bool at_low, bool at_high, bool may_end) {
    const Expression zeros = store_.repeat(digit('0'), may_end ? 0 : 1);
    const Expression any = store_.repeat(any_digit_, may_end ? 0 : 1);
    if (at_high) return (high_->excluded || (at_low && low_.excluded)) ? ExpressionStore::nothing : zeros;
    if (!low_.excluded) return any;
    return store_.concat({store_.star(any_digit_), store_.bytes(digits('1', '9')), store_.star(any_digit_)});
  }

  ExpressionStore& store_;
  bool integers_;
  Expression any_digit_;
  NumberBound low_;
  std::optional<NumberBound> high_;
  std::size_t length_ = 0;
  std::map<std::tuple<std::size_t, bool, bool>, Expression> known_, fractions_;
};

Expression whole_digits(ExpressionStore& store) {
  const Expression more = store.concat(store.bytes(digits('1', '9')), store.star(store.bytes(digits('0', '9'))));
  return store.either(store.text("0"), more);
}

Expression signed_number(ExpressionStore& store, Expression magnitude) {
  return store.concat(store.optional(store.text("-")), magnitude);
}

Expression fraction_of(ExpressionStore& store, const ByteSet& set) {
  return store.optional(store.concat(store.text("."), store.repeat(store.bytes(set), 1)));
}

// A magnitude as a number of 10^-places, without what is smaller.
std::string digits_of(const Decimal& value, std::uint32_t places) {
  std::string fraction = value.fraction;
  fraction.resize(places, '0');
  return value.whole + fraction;
}

Decimal from_digits(std::string_view digits, std::uint32_t places) {
  Decimal value;
  value.whole = digits.substr(0, digits.size() - places);
  value.fraction = digits.substr(digits.size() - places);
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size() - 1));
  return cut(std::move(value), places);
}

std::uint64_t remainder_of(std::string_view digits, std::uint64_t units) {
  std::uint64_t remainder = 0;
  for (const char digit : digits) remainder = (remainder * 10 + static_cast<std::uint64_t>(digit - '0')) % units;
  return remainder;
}

std::string plus(std::string digits, std::uint64_t amount) {
  for (std::size_t place = digits.size(); amount > 0; amount /= 10) {
    if (place == 0) {
      digits.insert(digits.begin(), '0');
      place = 1;
    }
    amount += static_cast<std::uint64_t>(digits[--place] - '0');
    digits[place] = static_cast<char>('0' + amount % 10);
  }
  return digits;
}

// Requires: no more than the digits say.
std::string minus(std::string digits, std::uint64_t amount) {
  for (std::size_t place = digits.size(); amount > 0 && place > 0; amount /= 10) {
    const auto digit = static_cast<std::uint64_t>(digits[--place] - '0');
    const std::uint64_t taken = amount % 10;
    if (digit < taken) amount += 10;
    digits[place] = static_cast<char>('0' + (digit + 10 - taken) % 10);
  }
  return digits;
}

}  // namespace

std::string Decimal::text() const {
  return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

std::optional<Decimal> decimal_of(std::string_view text, std::size_t most_digits) {
  Decimal value;
  value.negative = text.starts_with('-');
  if (value.negative) text.remove_prefix(1);
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string_view power = text.substr(std::min(e + 1, text.size()));
  text = text.substr(0, e);
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string all(text.substr(0, point));
  if (point < text.size()) all += text.substr(point + 1);
  const bool only_digits = !all.empty() && std::ranges::all_of(all, [](char c) { return c >= '0' && c <= '9'; });
  if (!only_digits) return std::nullopt;
  const std::size_t zeros = std::min(all.find_first_not_of('0'), all.size());
  all.erase(0, zeros);
  if (all.empty()) return Decimal();
  std::ptrdiff_t exponent = 0;
  if (!power.empty()) {
    if (power.starts_with('+')) power.remove_prefix(1);
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error != std::errc() || end != power.data() + power.size()) return std::nullopt;
  }
  const auto most = static_cast<std::ptrdiff_t>(most_digits);
  if (exponent > 2 * most || exponent < -2 * most || all.size() > most_digits) return std::nullopt;
  // Of the decimal point in `all`.
  std::ptrdiff_t place = static_cast<std::ptrdiff_t>(point) + exponent - static_cast<std::ptrdiff_t>(zeros);
  if (place > most || place < -most) return std::nullopt;
  if (place <= 0) {
    all.insert(0, static_cast<std::size_t>(1 - place), '0');
    place = 1;
  }
  if (static_cast<std::ptrdiff_t>(all.size()) < place) all.append(static_cast<std::size_t>(place) - all.size(), '0');
  value.whole = all.substr(0, static_cast<std::size_t>(place));
  value.fraction = all.substr(static_cast<std::size_t>(place));
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size() - 1));
  value.fraction.erase(value.fraction.find_last_not_of('0') + 1);
  return value;
}

Decimal cut(Decimal value, std::size_t digits) {
  if (value.fraction.size() > digits) value.fraction.resize(digits);
  value.fraction.erase(value.fraction.find_last_not_of('0') + 1);
  if (value.is_zero()) value.negative = false;
  return value;
}

Decimal next_decimal(Decimal value, std::size_t digits) {
  value.fraction.resize(digits, '0');
  std::string all = '0' + value.whole + value.fraction;
  const std::size_t last = all.find_last_not_of('9');
  ++all[last];
  std::ranges::fill(all.begin() + static_cast<std::ptrdiff_t>(last) + 1, all.end(), '0');
  value.whole = all.substr(all[0] == '0' ? 1 : 0, value.whole.size() + (all[0] == '0' ? 0 : 1));
  value.fraction = all.substr(all.size() - digits);
  return cut(std::move(value), digits);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  const int by_whole = a.whole.compare(b.whole), by_fraction = a.fraction.compare(b.fraction);
  const int order = by_whole != 0 ? by_whole : by_fraction;
  return order == 0 ? 0 : (order < 0 ? -sign : sign);
}

std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

Factor factor_of(const Decimal& decimal) {
  return {std::stoull(decimal.whole + decimal.fraction), static_cast<std::uint32_t>(decimal.fraction.size())};
}

Factor integers_of(const Factor& factor) {
  return {factor.units / std::gcd(factor.units, power_of_ten(factor.places)), 0};
}

std::optional<Decimal> common_multiple(const Decimal& a, const Decimal& b) {
  const auto places = static_cast<std::uint32_t>(std::max(a.fraction.size(), b.fraction.size()));
  const std::string first = digits_of(a, places), second = digits_of(b, places);
  if (std::max(first.size(), second.size()) > 2 * kMostFactorDigits) return std::nullopt;
  const std::uint64_t of_a = std::stoull(first), of_b = std::stoull(second);
  const std::uint64_t more = of_b / std::gcd(of_a, of_b);
  const std::uint64_t most = power_of_ten(kMostFactorDigits);
  if (of_a >= most || more >= most || of_a * more >= most) return std::nullopt;
  return from_digits(plus(std::string(places + 1, '0'), of_a * more), places);
}

Decimal next_multiple(const NumberBound& low, const Factor& factor) {
  const std::string digits = digits_of(low.at, factor.places);
  const std::uint64_t remainder = remainder_of(digits, factor.units);
  const bool exact = low.at.fraction.size() <= factor.places;
  if (remainder == 0 && exact && !low.excluded) return low.at;
  return from_digits(plus(digits, factor.units - remainder), factor.places);
}

std::optional<Decimal> last_multiple(const NumberBound& high, const Factor& factor) {
  const std::string digits = digits_of(high.at, factor.places);
  const std::uint64_t remainder = remainder_of(digits, factor.units);
  const bool exact = high.at.fraction.size() <= factor.places;
  const bool itself = remainder == 0 && exact && high.excluded;
  if (itself && high.at.is_zero()) return std::nullopt;
  return from_digits(minus(digits, itself ? factor.units : remainder), factor.places);
}

Expression number_range(ExpressionStore& store, const std::optional<NumberBound>& low,
                        const std::optional<NumberBound>& high, bool integers) {
  Magnitudes magnitudes(store, integers);
  return either_sign(store, low, high, [&](const NumberBound& from, const std::optional<NumberBound>& to) {
    return magnitudes.between(from, to);
  });
}

Expression number_equal_to(ExpressionStore& store, const Decimal& value) {
  const Expression equal = number_range(store, NumberBound{value, false}, NumberBound{value, false}, false);
  return value.is_zero() ? store.concat(store.optional(store.text("-")), equal) : equal;
}

Expression any_number(ExpressionStore& store) {
  ByteSet sign, e;
  sign.add('+'), sign.add('-'), e.add('e'), e.add('E');
  const Expression exponent = store.optional(store.concat(
      {store.bytes(e), store.optional(store.bytes(sign)), store.repeat(store.bytes(digits('0', '9')), 1)}));
  return store.concat(plain_number(store), exponent);
}

Expression plain_number(ExpressionStore& store) {
  return signed_number(store, store.concat(whole_digits(store), fraction_of(store, digits('0', '9'))));
}

Expression shortest_number(ExpressionStore& store) {
  const Expression fraction =
      store.concat({store.text("."), store.star(store.bytes(digits('0', '9'))), store.bytes(digits('1', '9'))});
  const Expression number = signed_number(store, store.concat(whole_digits(store), store.optional(fraction)));
  return store.both(number, store.negation(store.text("-0")));
}

Expression integer_text(ExpressionStore& store) {
  return signed_number(store, whole_digits(store));
}

Expression integral_number(ExpressionStore& store) {
  return signed_number(store, store.concat(whole_digits(store), fraction_of(store, digits('0', '0'))));
}

}  // namespace espalier::grammar
