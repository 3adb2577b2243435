// far_bounds.h: counters whose upper bounds lie further than a token reaches.
//
// `x{0,200}` cannot be used up by fewer bytes than 200 of the shortest x have, nor by fewer blanks than 200 where every
// x has one. All that a part of an expression reads of a text is part of the text, so an expression reads a text of few
// bytes, or of few blanks, exactly if it does without the bound: the states behind every character of a long counted
// text allow the same tokens, but for the few that are long or have many blanks. A token may come when something
// completes it, so what completes it counts too.
//
// Bounds under a complement are left alone (without them it would read less), and so are those that are near.
// Units:   bytes. Threads: as the store. Fails: never; what is too large to be looked through has no answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/expression.h"
#include "grammar/masks/token_trie.h"

namespace espalier::grammar {

// Compares expressions with the same ones without far bounds, and says for which tokens they agree.
class FarBounds {
 public:
  struct Bound {
    std::uint32_t bytes = 0;  // that it takes to use it up
    std::uint32_t count = 0;
    Classes marks = 0;  // rare bytes of which each item has one; 0: there are none
    bool operator==(const Bound&) const = default;
  };
  struct Completion {  // of what can be begun, at most
    std::uint32_t bytes = 0, marks = 0;
  };
  struct Segment {               // a part behind which the rest is read
    std::uint32_t distance = 0;  // bytes that are read before it, at least
    std::span<const Bound> bounds;
    Completion completion;
  };
  struct Similarity {  // of two expressions that differ in bounds only
    std::vector<Segment> segments;
    std::uint32_t known = 0;  // nothing is known of longer texts
    // Whether both go on alike with all texts of at most `height` bytes of these classes, at most `word_ends` of them
    // of kWordEnds. False when that is not known.
    bool holds(std::uint32_t height, Classes classes, std::uint32_t word_ends) const;
  };

  // `far`: bytes that it takes to use up a bound, at least; those from `near` on would be taken for far ones that have
  // nearly been used up. `marked`: also nearer ones that it takes rare bytes to use up.
  FarBounds(ExpressionStore& store, std::uint32_t far, std::uint32_t near, bool marked)
      : store_(store), far_(far), near_(near), marked_(marked) {}

  // The same without far bounds. Nothing when there are none, or when it would not help.
  std::optional<Expression> loosened(Expression e);
  // Of what is left of an expression and of it without far bounds, behind the same text.
  std::optional<Similarity> similarity(Expression bounded, Expression loose);

 private:
  using Completions = std::unordered_map<Expression, std::optional<Completion>>;

  std::uint32_t least_bytes(Expression e, int nesting);
  Classes marks(Expression e, int nesting);
  Classes find_marks(Expression e, int nesting);
  std::optional<Bound> own_bound(Expression repeat, int nesting);
  const std::vector<Bound>& bounds(Expression e, int nesting);
  Expression without_bounds(Expression e);
  std::optional<Completion> completion(Expression e, Classes marks);
  void find_completion(Expression e, Classes marks, Completions& found);

  ExpressionStore& store_;
  std::uint32_t far_, near_;
  bool marked_;
  std::unordered_map<Expression, std::uint32_t> least_;
  std::unordered_map<Expression, Classes> marks_;
  std::unordered_map<Expression, std::vector<Bound>> bounds_;
  std::unordered_map<Expression, Expression> without_;
  std::map<Classes, Completions> completions_;  // by the bytes that count as marks
};

}  // namespace espalier::grammar
