// counted_text.h: of texts `item{low,high} tail`, how many items each token has, so that the tokens of any bounds
// follow from those without bounds.
//
// A string of 1 to 255 characters stands in another state behind each character; all these states allow the tokens of
// the string without bounds, but for the few that have too many items, or reach the tail behind too few. This holds
// where items can be told apart: none begins another, and none begins as the tail does.
// Units:   items. Threads: a value. Fails: never.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/vocabulary.h"

namespace espalier::grammar {

struct CountedText {  // the shape that is counted
  Expression item = ExpressionStore::nothing, tail = ExpressionStore::empty;
  std::uint32_t low = 0, high = ExpressionStore::unbounded;

  static std::optional<CountedText> of(const ExpressionStore& store, Expression e);
};

// The tokens of `item* tail`, grouped by how many items each has.
class CountedTokens {
 public:
  // None when the items cannot be told apart. `unbounded`: the tokens of `item* tail`.
  static std::shared_ptr<const CountedTokens> make(Automaton& automaton, const CountedText& text,
                                                   const Vocabulary& vocabulary,
                                                   std::shared_ptr<const LexemeTokens> unbounded);

  // The bounds that make a difference: larger ones allow the same tokens.
  std::uint32_t most_low() const { return most_before_tail_ + 1; }
  std::uint32_t most_high() const { return most_items_; }
  const std::shared_ptr<const LexemeTokens>& unbounded() const { return unbounded_; }
  // Without `behind`.
  LexemeTokens within(std::uint32_t low, std::uint32_t high) const;

 private:
  using Counted = std::pair<std::uint16_t, std::uint32_t>;  // items; token or node
  void add(std::uint16_t items, bool in_tail, std::span<const TokenId> tokens);
  void finish(std::size_t words);

  std::shared_ptr<const LexemeTokens> unbounded_;
  std::vector<MaskWords> longer_;     // longer_[n]: tokens of more than n items
  std::vector<Counted> long_tokens_;  // of more items than that tells of, most first
  std::vector<Counted> items_;        // of all tokens, until they are sorted into these two
  std::vector<Counted> before_tail_;  // tokens that reach the tail, fewest items first
  std::vector<Counted> leaves_;       // nodes where the text ends while the token goes on
  std::uint32_t most_items_ = 0, most_before_tail_ = 0;
};

}  // namespace espalier::grammar
