// token_masks.h: which tokens may come in a state of an automaton.
//
// A token may come when the automaton can read all its bytes. The trie of the vocabulary is read along it; what keeps
// that short:
//   * alternatives are followed one by one, so that the middle of a name or of a listed value is a path in the trie and
//     no state; where that would take too long, all of it is found along the states (trie_walk.h);
//   * a lexeme's tokens are found once, whatever stands behind it (word_tokens.h); of the tokens that go on behind its
//     end only that rest is read where the lexeme stands; what it reads there is kept too, for the next place where the
//     two lexemes follow one another.
// Threads: as the automaton.
// Fails:   never; an exhausted automaton gives an incomplete mask (Automaton::exhausted).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/thread_time_budget.h"
#include "grammar/automaton/automaton.h"
#include "grammar/masks/trie_walk.h"
#include "grammar/masks/vocabulary.h"
#include "grammar/masks/word_tokens.h"

namespace espalier::grammar {

// Works out the mask of a state by reading the vocabulary's trie along the automaton.
class TokenMasks {
 public:
  TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary);
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  // The tokens of the grammar's words beforehand, until the allowance is used up.
  void find_lexemes(ThreadTimeBudget& allowance) { words_.find_lexemes(allowance); }

  std::size_t memory() const;  // bytes, about; of words' tokens too, which other grammars may share

  // Sets the bits of all tokens that may come; clears the others.  [vocabulary words]
  void fill(State state, MaskWords& mask);

 private:
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
  std::shared_ptr<const PartTokens> part_tokens(const Place& place, Expression word);

  Automaton& automaton_;
  ExpressionStore& store_;
  std::shared_ptr<Vocabulary> vocabulary_;
  TrieWalk walk_;
  WordTokens words_;
  MaskWords* mask_ = nullptr;  // that is being filled
  std::size_t fuel_ = 0;       // what may be followed until the states are walked instead
  int nesting_ = 0;
  std::vector<Frame> deferred_;   // what is to be found along the states
  std::vector<KnownPart> parts_;  // by hash, the last one of each; of tries that words_ keeps
};

}  // namespace espalier::grammar
