// word_tokens.h: the tokens of a lexeme, found once, whatever stands behind it, and shared between grammars.
//
// Most are found from others, without a walk over all tokens:
//   * a lexeme of 3 to 40 characters has the tokens of one of any length, but for those that are counted out
//     (counted_text.h);
//   * where counters are far from their bounds the tokens are those without bounds, but for long ones (far_bounds.h);
//   * alternatives are found apart from one another, where that makes them simpler;
//   * a lexeme that is like another one (any name but these) differs from it in few tokens: only where the two part are
//     tokens looked at.
// Threads: as the automaton. Fails: never; an exhausted automaton gives incomplete tokens, which are not remembered.
// Files: word_tokens.cpp; near_words.cpp: words that are nearly others.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/threads/thread_time_budget.h"
#include "grammar/masks/counted_text.h"
#include "grammar/masks/far_bounds.h"
#include "grammar/masks/trie_walk.h"

namespace espalier::grammar {

// Finds and remembers the tokens of words.
class WordTokens {
 public:
  WordTokens(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary, TrieWalk& walk);

  // Finds what most JSON needs: the tokens of strings and of whitespace.
  static void prepare(const std::shared_ptr<Vocabulary>& vocabulary);
  // Those of lexemes of a grammar that have been made so far, and of what they are behind their first letter, one after
  // another until the allowance is used up.
  void find_lexemes(ThreadTimeBudget& allowance);

  std::shared_ptr<const LexemeTokens> of_lexeme(Expression lexeme);
  std::shared_ptr<const LexemeTokens> of_whole(Expression operand);       // of a text that nothing follows
  std::size_t count() const { return lexemes_.size() + wholes_.size(); }  // that are remembered

 private:
  using NodeRange = std::pair<TokenTrie::Node, TokenTrie::Node>;

  Expression after_a_letter(Expression lexeme);
  std::shared_ptr<const LexemeTokens> tokens_of(Expression operand, Expression like = ExpressionStore::nothing);
  State start_of_word(Expression operand) { return automaton_.start(operand, after_words_); }
  std::shared_ptr<const LexemeTokens>& known_of(Expression operand) {
    return (after_words_ == Automaton::unknown ? lexemes_ : wholes_)[operand];
  }
  void find_lexeme(Expression operand, LexemeTokens& tokens);
  std::shared_ptr<const LexemeTokens> find_counted(Expression operand);
  std::shared_ptr<const CountedTokens> counted(const CountedText& text);
  void merge_after(LexemeTokens& tokens);

  // near_words.cpp
  std::shared_ptr<const LexemeTokens> find_loosened(Expression operand);
  std::shared_ptr<const LexemeTokens> within_bounds(Expression operand, Expression loose, FarBounds& bounds);
  void refuse(const TokenTrie::Part& part, State bounded, State loose, FarBounds& bounds, LexemeTokens& tokens,
              std::vector<NodeRange>& ended);
  std::optional<FarBounds::Similarity> similarity(State bounded, State loose, FarBounds& bounds);
  std::shared_ptr<const LexemeTokens> find_united(Expression operand);
  std::shared_ptr<const LexemeTokens> united(std::span<const std::shared_ptr<const LexemeTokens>> found);
  bool find_like(Expression operand, const LexemeTokens& like, Expression other, LexemeTokens& tokens);
  bool compare(const TokenTrie::Part& part, State mine, State other, LexemeTokens& tokens,
               std::vector<TokenTrie::Node>& more, std::vector<TokenTrie::Node>& fewer);

  Automaton& automaton_;
  ExpressionStore& store_;
  std::shared_ptr<Vocabulary> vocabulary_;
  TrieWalk& walk_;
  std::array<FarBounds, 3> far_bounds_;     // the furthest first
  std::vector<TrieLevel> levels_;           // by depth, of two texts that are read side by side
  std::size_t compared_ = 0;                // nodes at which a lexeme has parted from one that it is like
  bool merges_all_ = false;                 // what stands behind lexemes becomes a trie however much it is
  State after_words_ = Automaton::unknown;  // what follows the words of which tokens are looked for
  std::unordered_map<Expression, std::shared_ptr<const LexemeTokens>> lexemes_, wholes_;
  std::unordered_map<Expression, std::shared_ptr<const CountedTokens>> counted_;  // by `item* tail`; null: not to be
};

}  // namespace espalier::grammar
