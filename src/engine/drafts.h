// drafts.h: guesses of what a sequence says next, and how many of them are worth verifying.
//
// Guesses come, longest agreement first, from: the radix tree (another sequence went on from the very same tokens), the
// sequence's own text, and finished texts of the same scope (what followed the same suffix before). A guess costs one
// more row in the next step and gives a token when the target model would have said it; results do not depend on
// guesses, only time does. How many pay follows from what rows cost (measured) and how often this sequence's guesses
// came true. Threads: the engine thread. Fails: never; no guess is an answer.
// Source: prompt look-up decoding; REST (He et al. 2023); the verification rule is sampling with the request's own
// noise.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cache/radix_tree.h"
#include "engine/step_cost.h"
#include "engine/suffix_index.h"

namespace espalier {

struct Sequence;

enum class DraftSource { none, ngram, tree };  // ngram: own text; tree: also the radix tree and finished texts

// Part of a sequence; empty until it first decodes.
struct DraftState {
  SuffixIndex own;
  PeekMemory peeked;
  double acceptance = 0.7;  // how often a guess came true, lately
};

class Drafts {
 public:
  static constexpr int kMostTokens = 16;  // of one draft

  Drafts(DraftSource source, const RadixTree& tree, int forced = 0) : source_(source), forced_(forced), tree_(tree) {}

  bool on() const { return source_ != DraftSource::none; }
  // At most `most` tokens to verify behind the sequence's last one, in a step of `rows` rows without them.
  std::vector<TokenId> propose(Sequence& sequence, int most, int rows);
  void verified(Sequence& sequence, int accepted, bool rejected) const;
  void finished(const Sequence& sequence);  // its text may be of use to others of its scope
  void observe(int rows, double seconds) { cost_.observe(rows, seconds); }

 private:
  // Finished texts of one scope, one behind the other; the older half goes when it is full.
  struct Log {
    std::vector<TokenId> text;
    SuffixIndex index;
    std::uint64_t last_use = 0;
  };
  std::vector<TokenId> guess(Sequence& sequence, int most);
  std::vector<TokenId> from_tree(Sequence& sequence, int most) const;

  static constexpr std::size_t kLogTokens = 1 << 18, kLogs = 64;
  DraftSource source_;
  int forced_;
  const RadixTree& tree_;
  StepCost cost_;
  std::map<std::string, Log, std::less<>> logs_;
  std::uint64_t uses_ = 0;
};

}  // namespace espalier
