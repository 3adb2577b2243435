// draft_model.h: a small model that guesses what a sequence says next: its own keys and values beside the target's.
//
// It has a pool and a prefix tree of its own: the texts it has read go there at once, what was said when the sequence
// ends, so a prefix is computed once here too. A guess that was not said is rolled back.
// Threads: the engine thread. Fails: make_room() says that the pool is full. Order: the model outlives every sequence
// it has followed.
#pragma once

#include <vector>

#include "cache/slots/slot_allocator.h"
#include "cache/tree/radix_tree.h"
#include "engine/draft/guesser.h"
#include "engine/memory/kv_pool.h"

namespace espalier {

// What a draft model may use and which tokens end a text.
struct DraftModelOptions {
  int slots = 0;    // of the pool behind the view
  int context = 0;  // longer sequences are not followed
  bool keep_prefixes = true;
  std::vector<TokenId> end_tokens;  // the target's: they wait for a request's minimum
};

// Follows sequences with a small model and guesses their next tokens.
class DraftModel final : public Guesser {
 public:
  DraftModel(Model& model, KvView kv, ComputeTeam& team, DraftModelOptions options);

  int behind(Sequence& sequence) override;  // 0: the sequence is too long
  bool make_room(Sequence& sequence, int rows) override;
  void let_go(Sequence& sequence) override;  // what is computed goes to the tree
  void clear() override { tree_.evict_all(); }
  int pool_tokens() const { return allocator_.capacity(); }
  int used_slots() const { return allocator_.used_slots(); }
  Result<> check(int owned_by_sequences) const override;

 private:
  int add(RaggedBatch& batch, const Turn& turn) const override;
  void computed(const Turn& turn) override;
  void begin(Sequence& sequence);
  void settle(Sequence& sequence);

  DraftModelOptions options_;
  SlotAllocator allocator_;
  RadixTree tree_;
};

}  // namespace espalier
