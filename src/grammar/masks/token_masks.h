// token_masks.h: which tokens may come in a state of an automaton.
//
// A token may come when the automaton can read all its bytes. The trie of the vocabulary is read along it; what keeps
// that short:
//   * alternatives are followed one by one (follow_tokens.cpp), so that the middle of a name or of a listed value is a
//     path in the trie and no state; where that would take too long, all of it is found along the states;
//   * where states loop over classes of bytes (free text, closed_loops.h), tokens made of these classes are known
//     beforehand, and only subtrees with a byte that may leave the loop are visited;
//   * a lexeme's tokens are found once, whatever stands behind it, and shared between grammars; of the tokens that go
//     on behind its end only that rest is read where the lexeme stands; what it reads there is kept too, for the next
//     place where the two lexemes follow one another;
//   * a lexeme of 3 to 40 characters has the tokens of one of any length, but for those that are counted out
//     (counted_text.h);
//   * where counters are far from their bounds the tokens are those without bounds, but for long ones (far_bounds.h);
//   * a lexeme that is like another one (any name but these) differs from it in few tokens: only where the two part are
//     tokens looked at.
// Threads: as the automaton.
// Fails:   never; an exhausted automaton gives an incomplete mask (Automaton::exhausted).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/thread_time_budget.h"
#include "grammar/automaton/automaton.h"
#include "grammar/masks/closed_loops.h"
#include "grammar/masks/counted_text.h"
#include "grammar/masks/far_bounds.h"
#include "grammar/masks/vocabulary.h"

namespace espalier::grammar {

// Works out the mask of a state by reading the vocabulary's trie along the automaton.
class TokenMasks {
 public:
  TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary);

  // Finds what most JSON needs: the tokens of strings and of whitespace.
  static void prepare(const std::shared_ptr<Vocabulary>& vocabulary);

  // The same for lexemes of a grammar that have been made so far, and for what they are behind their first letter, one
  // after another until the allowance is used up.
  void find_lexemes(ThreadTimeBudget& allowance);

  std::size_t memory() const;  // bytes, about; of words' tokens too, which other grammars may share

  // Sets the bits of all tokens that may come; clears the others.  [vocabulary words]
  void fill(State state, MaskWords& mask);

 private:
  static constexpr unsigned kManyBytes = 32;  // that may come; for fewer a walk is short
  using NodeRange = std::pair<TokenTrie::Node, TokenTrie::Node>;
  // How a state repeats itself: with one more character of `inside` it stays in its family, up to `characters` times.
  struct Loop {
    Classes inside = 0, leaving = 0;  // leaving: classes whose bytes may lead out of the family
    std::uint32_t characters = 0;
    std::uint64_t family = 0;  // 0 = none
    bool closed = false;       // all states behind characters of `inside` are of the family
  };
  struct Level {  // of a walk: the children of one node, of which some have been visited
    TokenTrie::Children children;
    std::size_t next = 0;       // among the children; of a narrow row among its bytes
    Automaton::Row row, other;  // `other`: of the text that is read beside (compare)
    // The next child that the row leads to; false when there is none.
    bool advance(std::size_t& place);
    const Loop* around = nullptr;  // whose tokens are all set already
    Classes loops = 0;             // of which any characters lead back to where the level is
  };

  // Where tokens are at: below a node of each part of a trie, at first all of both.
  struct Place {
    const TokenTrie* trie = nullptr;
    std::array<TokenTrie::Children, 2> parts;
    bool top = false;  // of the vocabulary's own trie
    bool empty() const { return parts[0].bytes.empty() && parts[1].bytes.empty(); }
  };
  struct PartTokens {  // of a lexeme that stands where a token has begun already
    std::vector<TokenId> inside;
    std::vector<TokenTrie::Node> leaves;  // as in LexemeTokens
  };
  struct PartPlace {  // where that is
    const TokenTrie::Node *whole = nullptr, *pieces = nullptr;
    Expression word = ExpressionStore::nothing;
    bool operator==(const PartPlace&) const = default;
    std::uint64_t hash() const;
  };
  struct KnownPart {
    PartPlace at;
    std::shared_ptr<const PartTokens> tokens;
  };
  struct Rest {  // what is read behind an expression, up to its caller
    Expression at = ExpressionStore::empty;
    const Rest* next = nullptr;
  };
  struct Behind {
    const Rest* rest = nullptr;
    State caller = Automaton::dead;
    bool moved = false;  // a byte has been read since the frame was taken from its state
  };

  bool is_top(const Place& place) const { return place.top && place.trie == &vocabulary_->trie(); }
  bool spend(std::size_t fuel);
  static Place top_of(const TokenTrie& trie);
  Place descend(const Place& place, unsigned char byte);
  void follow(const Place& place, Expression at, Behind behind);
  void follow_after(const Place& place, Behind behind);
  void follow_bytes(const Place& place, Expression at, Behind behind);
  void follow_literal(const Place& place, Expression at, Behind behind);
  void follow_either(const Place& place, Expression at, Behind behind);
  void follow_repeat(const Place& place, Expression at, Behind behind);
  void follow_call(const Place& place, Rule rule, Behind behind);
  void follow_lexeme(const Place& place, Expression at, Behind behind);
  void follow_states(const Place& place, Expression at, Behind behind);
  bool follows_by_itself(Expression at) const;
  Frame frame_of(Expression at, Behind behind);
  State start(Frame frame) { return automaton_.start(frame.at, frame.caller); }

  void walk(State from, MaskWords& mask, std::vector<TokenTrie::Node>* leaves);
  void walk_whole(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                  std::vector<TokenTrie::Node>* leaves);
  Classes set_loops_after(TokenTrie::Children top, State from, MaskWords& mask);
  void walk_all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                std::vector<TokenTrie::Node>* leaves);
  template <class Visit>
  void visit_all(const TokenTrie& trie, TokenTrie::Children top, State from, Visit visit);
  std::shared_ptr<const PartTokens> part_tokens(const Place& place, Expression word);
  std::shared_ptr<const LexemeTokens> lexeme_tokens(Expression lexeme);
  Expression after_a_letter(Expression lexeme);
  std::shared_ptr<const LexemeTokens> tokens_of_whole(Expression operand);
  std::shared_ptr<const LexemeTokens> tokens_of(Expression operand, Expression like = ExpressionStore::nothing);
  State start_of_word(Expression operand) { return automaton_.start(operand, after_words_); }
  std::shared_ptr<const LexemeTokens>& known_of(Expression operand) {
    return (after_words_ == Automaton::unknown ? lexemes_ : wholes_)[operand];
  }
  void find_lexeme(Expression operand, LexemeTokens& tokens);
  std::shared_ptr<const LexemeTokens> find_counted(Expression operand);
  std::shared_ptr<const CountedTokens> counted(const CountedText& text);
  // From tokens that are known, or soon will be (known_tokens.cpp).
  std::shared_ptr<const LexemeTokens> find_loosened(Expression operand);
  std::shared_ptr<const LexemeTokens> within_bounds(Expression operand, Expression loose, FarBounds& bounds);
  void refuse(const TokenTrie::Part& part, State bounded, State loose, FarBounds& bounds, LexemeTokens& tokens,
              std::vector<NodeRange>& ended);
  std::optional<FarBounds::Similarity> similarity(State bounded, State loose, FarBounds& bounds);
  std::shared_ptr<const LexemeTokens> find_united(Expression operand);
  std::shared_ptr<const LexemeTokens> united(std::span<const std::shared_ptr<const LexemeTokens>> found);
  bool is_wide(State state) { return automaton_.row(state).size() >= kManyBytes; }
  bool find_like(Expression operand, const LexemeTokens& like, Expression other, LexemeTokens& tokens);
  bool compare(const TokenTrie::Part& part, State mine, State other, LexemeTokens& tokens,
               std::vector<TokenTrie::Node>& more, std::vector<TokenTrie::Node>& fewer);
  void merge_after(LexemeTokens& tokens);

  const Loop& loop(State state);
  Loop find_loop(State state);
  bool is_endless(const Loop& around) const;
  Classes unbounded_loop(State state);
  bool counter_loop(const Frame& frame, Loop& loop);
  bool self_loop(State state, Loop& loop);
  bool closed_loop(State state, Loop& loop);
  Classes wide_items(Expression item);
  Classes wide_loops(State state, Classes& leaving);
  bool stays_over(State state, unsigned char lead);

  Automaton& automaton_;
  ExpressionStore& store_;
  std::shared_ptr<Vocabulary> vocabulary_;
  std::array<FarBounds, 3> far_bounds_;  // the furthest first
  Expression wide_;                      // any one character that is not ASCII
  std::vector<Level> levels_;            // by depth
  MaskWords* mask_ = nullptr;            // that is being filled
  std::size_t compared_ = 0;             // nodes at which a lexeme has parted from one that it is like
  std::size_t fuel_ = 0;                 // what may be followed until the states are walked instead
  int nesting_ = 0;
  std::vector<Frame> deferred_;  // what is to be found along the states
  bool merges_all_ = false;      // what stands behind lexemes becomes a trie however much it is
  ClosedLoops closed_loops_;
  std::unordered_map<State, Loop> loops_;
  std::unordered_map<Expression, Classes> wide_items_;
  State after_words_ = Automaton::unknown;  // what follows the words of which tokens are looked for
  std::unordered_map<Expression, std::shared_ptr<const LexemeTokens>> lexemes_, wholes_;
  std::vector<KnownPart> parts_;  // by hash, the last one of each; of tries that lexemes_ keeps
  std::unordered_map<Expression, std::shared_ptr<const CountedTokens>> counted_;  // by `item* tail`; null: not to be
};

// Every node that can be reached, with the state behind it.
template <class Visit>
void TokenMasks::visit_all(const TokenTrie& trie, TokenTrie::Children top, State from, Visit visit) {
  if (top.bytes.empty()) return;
  std::size_t depth = 0;
  levels_[0].children = top;
  levels_[0].next = 0;
  levels_[0].row = automaton_.row(from);
  for (;;) {
    Level& level = levels_[depth];
    std::size_t place = 0;
    if (!level.advance(place)) {
      if (depth-- == 0) return;
      continue;
    }
    const State state = level.row.next(level.children.bytes[place]);
    const TokenTrie::Node node = level.children.nodes[place];
    visit(node, state);
    if (!trie.has_children(node)) continue;
    Level& below = levels_[++depth];
    below.children = trie.children(node);
    below.next = 0;
    below.row = automaton_.row(state);
  }
}

}  // namespace espalier::grammar
