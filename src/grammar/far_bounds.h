// far_bounds.h: counters whose upper bounds lie further than a token reaches.
//
// `x{0,200}` cannot be used up by fewer bytes than 200 of the shortest x have. All that a part of an expression reads
// of a text is at most as long as the text, so an expression reads a text of that many bytes exactly if it does without
// the bound: the states behind every character of a long counted text then allow the same tokens. A token may come when
// something completes it; `completion` says how many bytes that takes at most, so tokens that end as much before the
// bound need no look at it.
//
// Bounds under a complement are left alone (without them it would read less), and so are those that are near.
// Units:   bytes. Threads: as the store. Fails: never; what is too large to be looked through has no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "grammar/expression.h"

namespace espalier::grammar {

class FarBounds {
 public:
  struct Loosened {
    Expression at = ExpressionStore::nothing;  // the same without far bounds
    std::uint32_t reach = 0;                   // texts up to this length are read by both or by neither
    std::uint32_t completion = 0;              // what can be begun can be completed by that many
  };

  // `far`: bytes that it takes to use up a bound, at least.
  FarBounds(ExpressionStore& store, std::uint32_t far) : store_(store), far_(far) {}
  // Nothing when there are no far bounds, or when it would not help.
  std::optional<Loosened> loosened(Expression e);

 private:
  std::uint32_t least_bytes(Expression e, int nesting);
  std::uint32_t nearest(Expression e, int nesting);  // of the far bounds inside; the largest number: there is none
  std::uint32_t own_bound(Expression repeat, int nesting);
  Expression without_bounds(Expression e);
  std::optional<std::uint32_t> completion(Expression e);
  void find_completion(Expression e);

  ExpressionStore& store_;
  std::uint32_t far_;
  std::unordered_map<Expression, std::uint32_t> least_, nearest_;
  std::unordered_map<Expression, Expression> without_;
  std::unordered_map<Expression, std::optional<std::uint32_t>> completions_;  // of what leads there too, at most
};

}  // namespace espalier::grammar
