// draft_model.h: a small model that guesses what a sequence says next: its own keys and values beside the target's.
//
// It has a pool and a prefix tree of its own: the texts it has read go there at once, what was said when the sequence
// ends, so a prefix is computed once here too. A guess that was not said is rolled back. It chooses by the sequence's
// own parameters and noise, which the target's choice is made with as well: the closer the two models, the more often
// both choose the same. Which guesses are made, and how many, is for drafts.h.
// Units: positions and rows in tokens.
// Threads: the engine thread. Fails: make_room() says that the pool is full. Order: the model outlives every sequence
// it has followed.
#pragma once

#include <span>
#include <vector>

#include "base/compute_team.h"
#include "cache/radix_tree.h"
#include "cache/slot_allocator.h"
#include "engine/memory/held_tokens.h"
#include "engine/memory/kv_pool.h"
#include "engine/step/ragged_batch.h"
#include "model/model.h"

namespace espalier {

struct Sequence;

// What the draft model has of a sequence; part of it.
struct DraftCache {
  bool begun = false;            // rows were computed for it
  HeldTokens held;               // in the draft model's pool
  int stored = 0;                // leading positions whose keys and values are there
  std::vector<TokenId> guessed;  // the tokens at the last of those positions, which were guesses
};

// What a draft model may use and which tokens end a text.
struct DraftModelOptions {
  int slots = 0;    // of the pool behind the view
  int context = 0;  // longer sequences are not followed
  bool keep_prefixes = true;
  std::vector<TokenId> end_tokens;  // the target's: they wait for a request's minimum
};

// Follows sequences with a small model and guesses their next tokens.
class DraftModel {
 public:
  DraftModel(Model& model, KvView kv, ComputeTeam& team, DraftModelOptions options);

  // How many rows are to be computed before it can guess what follows the sequence's last token, at least 1. Guesses
  // that were not said are forgotten. 0: it cannot follow, the sequence is too long.
  int behind(Sequence& sequence);
  bool make_room(Sequence& sequence, int rows);

  struct Turn {
    Sequence* sequence;
    int rows;               // the next ones, of known tokens or of guesses in Sequence::draft
    bool wants_guess;       // of what follows the last of them
    TokenId guess = -1;     // -1: none could be made
    double confidence = 0;  // the probability the draft model gave it
  };
  // One batch. Requires: room was made for the rows; together at most most_rows(). Seconds it took.
  double step(std::span<Turn> turns);
  int most_rows() const { return model_.max_rows(); }

  void let_go(Sequence& sequence);  // what is computed goes to the tree
  void clear() { tree_.evict_all(); }
  int pool_tokens() const { return allocator_.capacity(); }
  int used_slots() const { return allocator_.used_slots(); }
  Result<> check(int owned_by_sequences) const;

 private:
  void begin(Sequence& sequence);
  void settle(Sequence& sequence);
  std::span<float> forward(std::span<const Turn> turns);
  void guess(Turn& turn, std::span<float> logits) const;

  Model& model_;
  KvView kv_;
  ComputeTeam& team_;
  DraftModelOptions options_;
  SlotAllocator allocator_;
  RadixTree tree_;
  RaggedBatch batch_;  // kept to reuse memory
};

}  // namespace espalier
