// possible_texts.h: whether an expression reads any text at all, which only intersections and complements leave open.
//
// What lies on the way to the end of some text is possible; when nothing ends, nothing that was visited is.
// Threads: as the store. Fails: never; beyond kSearchNodes places of one search the store is exhausted.
#pragma once

#include <optional>

#include "grammar/automaton/derivatives.h"

namespace espalier::grammar {

// Looks for texts, and tells what is left of steps without those that lead to none.
class PossibleTexts {
 public:
  PossibleTexts(ExpressionStore& store, Derivatives& derivatives) : store_(store), derivatives_(derivatives) {}

  bool possible(Expression e);  // calls and `later` count as possible
  Steps steps(Expression e);
  Expression derivative(Expression e, unsigned char byte);

 private:
  bool find_text(Expression start);
  bool has_text_of_one_byte(Expression intersection);
  std::optional<bool> find_short_text(Expression start);
  bool find_any_text(Expression start);
  bool leads_to_text(Expression e) const;

  ExpressionStore& store_;
  Derivatives& derivatives_;
};

}  // namespace espalier::grammar
