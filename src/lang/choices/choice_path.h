// choice_path.h: the choice that greedy_token_selection() takes, found where the choices part and nowhere else.
//
// Choices as lists of tokens behind one prompt are a tree. The method keeps, position by position, the rows with the
// largest value; rows with the same tokens so far have the same values, so it walks down the tree to the likeliest
// child wherever there are several, and what lies between has no say. One look at each such place finds its choice.
// That is so because a token's log-probability is a function of the tokens before it alone (docs/walk.md), and only
// where no choice is the beginning of another (the method would compare its mean with the other's next token), all
// begin at the same place (token healing may draw some of them back), and no two children are equally likely to the
// last bit (the method would keep both). Where one of these fails, there is no path, and all choices are scored.
// Threads: a value.
// Source:  SGLang, lang/choices.py (greedy_token_selection).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lang/choices/choice_tokens.h"

namespace espalier::lang {

// A walk down the tree of choices: asks for one look at each fork, and ends at a choice.
class ChoicePath {
 public:
  // Nothing: there is none. Requires: at least one choice.
  static std::optional<ChoicePath> make(const std::vector<ChoiceTokens>& choices);

  // The choice, once nothing is left to look at: the first of those that are left.
  bool found() const { return next_.empty(); }
  std::size_t choice() const { return left_.front(); }

  // Where to look: the tokens before the place where the choices that are left part, and those that may follow there.
  std::vector<TokenId> before() const;
  const std::vector<TokenId>& next() const { return next_; }
  // How likely each of next() is. False: two are the likeliest, and the path ends.
  bool take(std::span<const double> logprobs);

 private:
  explicit ChoicePath(const std::vector<ChoiceTokens>& choices);
  void go_on();  // to where those that are left part

  std::vector<std::vector<TokenId>> rows_;  // the choices with the prompt
  std::vector<std::size_t> left_;           // of them, in order
  std::size_t at_ = 0;
  std::vector<TokenId> next_;
};

}  // namespace espalier::lang
