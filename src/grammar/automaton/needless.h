// needless.h: alternatives and conditions that any text beside them makes needless.
//
// What a pattern was looked for in may go on with anything once it was found: beside `any* "` all other ways to read
// characters and a quote are needless, and only who knows what characters are can see it.
// Threads: as the nodes. Fails: never.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/automaton/expression_nodes.h"

namespace espalier::grammar {

// Knows any text of each alphabet.
class NeedlessParts {
 public:
  explicit NeedlessParts(const ExpressionNodes& nodes) : nodes_(nodes) {}

  static constexpr std::uint8_t flag(Alphabet alphabet) {
    return alphabet == Alphabet::plain ? ExpressionNode::kPlain : ExpressionNode::kJson;
  }
  void set_any_text(Alphabet alphabet, Expression any) { any_texts_[static_cast<std::size_t>(alphabet)] = any; }

  // Alternatives of any text.
  void drop_alternatives(std::vector<Expression>& alternatives) const;
  // Any text as a condition beside a counted one. Beside others it stays: it goes on character by character with what
  // is compared with it (far_bounds.h), which is without it in the middle of a character only. False: of one that is to
  // be none remains nothing.
  bool drop_conditions(std::vector<Expression>& operands) const;

 private:
  struct AnyText {  // and then `tail`
    std::uint8_t flag = 0;
    Expression tail = ExpressionNodes::empty;
  };
  std::optional<AnyText> any_text(Expression e) const;
  bool has_characters_before(Expression e, const AnyText& any) const;

  const ExpressionNodes& nodes_;
  std::array<Expression, 2> any_texts_{};  // by alphabet; nothing: it is not known
};

}  // namespace espalier::grammar
