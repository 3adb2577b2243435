// token_masks.h: which tokens may come in a state of an automaton.
//
// A token may come when the automaton can read all its bytes. The trie of the vocabulary is read once along the
// automaton; three things keep that short:
//   * where a state loops over classes of bytes (free text), tokens made of these classes are known beforehand, and
//   only
//     subtrees with a byte that may leave the loop are visited;
//   * a lexeme's tokens are found once, whatever stands behind it, and shared between grammars; of the tokens that go
//   on
//     behind its end only that rest is read where the lexeme stands;
//   * a lexeme that is like another one (any name but these) differs from it in few tokens: only where the two part are
//     tokens looked at.
// Threads: as the automaton.
// Fails:   never; an exhausted automaton gives an incomplete mask (Automaton::exhausted).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/vocabulary.h"

namespace espalier::grammar {

class TokenMasks {
 public:
  TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary);

  // Sets the bits of all tokens that may come; clears the others.  [vocabulary words]
  void fill(State state, MaskWords& mask);

 private:
  // How a state repeats itself: with one more character of `inside` it stays in its family, up to `characters` times.
  struct Loop {
    Classes inside = 0, leaving = 0;  // leaving: classes whose bytes may lead out of the family
    std::uint32_t characters = 0;
    std::uint64_t family = 0;  // 0 = none
  };
  struct Level {  // of a walk: the children of one node, of which some have been visited
    TokenTrie::Children children;
    std::size_t next = 0;
    Automaton::Row row, other;  // `other`: of the text that is read beside (compare)
    std::uint64_t family = 0;   // whose tokens are all set already
    Classes inside = 0, leaving = 0;
  };

  void fill_lexemes(Expression at, State caller, MaskWords& mask, std::vector<Expression>& others);
  void walk(State from, MaskWords& mask, std::vector<TokenTrie::Node>* leaves);
  void walk_whole(State from, MaskWords& mask, std::vector<TokenTrie::Node>* leaves);
  void walk_all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                std::vector<TokenTrie::Node>* leaves);
  std::shared_ptr<const LexemeTokens> lexeme_tokens(Expression lexeme);
  void find_lexeme(Expression operand, LexemeTokens& tokens);
  void find_like(Expression operand, const LexemeTokens& like, Expression other, LexemeTokens& tokens);
  void compare(const TokenTrie::Part& part, State mine, State other, LexemeTokens& tokens,
               std::vector<TokenTrie::Node>& more, std::vector<TokenTrie::Node>& fewer);
  void merge_behind(LexemeTokens& tokens);
  void go_on(const LexemeTokens& tokens, State behind, MaskWords& mask);

  const Loop& loop(State state);
  Loop find_loop(State state);
  bool counter_loop(const Frame& frame, Loop& loop);
  bool self_loop(State state, Loop& loop);
  bool reads_all_wide(Expression item);
  bool stays_over_wide(State state);

  Automaton& automaton_;
  ExpressionStore& store_;
  std::shared_ptr<Vocabulary> vocabulary_;
  Expression wide_;            // any one character that is not ASCII
  std::vector<Level> levels_;  // by depth
  std::unordered_map<State, Loop> loops_;
  std::unordered_map<Expression, bool> wide_items_;
  std::unordered_map<Expression, std::shared_ptr<const LexemeTokens>> lexemes_;
};

}  // namespace espalier::grammar
