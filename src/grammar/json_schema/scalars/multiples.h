// multiples.h: multiples of a factor, digit by digit; between bounds without looking for them.
//
// A state is what the digits so far leave as remainder: it becomes an expression when a text gets there.
// Units:   decimal digits; remainders in units of the factor.
// Threads: as the store. Fails: never.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

// Digits of a number of which the value so far, in units of the factor, leaves `remainder`.
struct Multiple {
  std::uint32_t factor = 0, remainder = 0, fraction_digits = 0;
  enum class Phase : std::uint8_t { start, sign, zero, whole, fraction, zeros } phase = Phase::start;
  bool integers = false;                                       // written without fraction
  std::uint32_t least = 0, most = ExpressionStore::unbounded;  // digits that are still to come before the point
  bool operator==(const Multiple&) const = default;
};

// Makes them. Factors are numbers of SchemaTables::decimals.
class Multiples {
 public:
  explicit Multiples(SchemaTables& tables) : store_(tables.expressions), tables_(tables) {}

  Expression of(std::uint32_t factor, bool integers) {
    return multiple({factor, 0, 0, Multiple::Phase::start, integers});
  }
  Expression between(std::uint32_t factor, bool integers, const std::optional<NumberBound>& low,
                     const std::optional<NumberBound>& high);
  // Numbers are multiples of all factors when they are of the least common one, as long as that is short enough.
  void join(std::vector<std::uint32_t>& factors);

  Expression expand(std::uint32_t number);          // of a payload
  std::uint32_t least(std::uint32_t number) const;  // digits that must come until there can be a multiple at all

 private:
  class Between;
  struct Hash {
    std::size_t operator()(const Multiple& m) const;
  };

  Factor factor_of(const Multiple& state) const;
  bool can_end(const Multiple& state) const;
  bool can_go_on(const Multiple& state) const;
  Expression multiple(const Multiple& state);
  std::optional<Multiple> after_digit(Multiple state, Multiple::Phase phase, unsigned digit) const;
  Expression digit_steps(const Multiple& state, Multiple::Phase phase);

  ExpressionStore& store_;
  SchemaTables& tables_;
  std::vector<Multiple> multiples_;
  std::unordered_map<Multiple, std::uint32_t, Hash> numbers_;
};

}  // namespace espalier::grammar
