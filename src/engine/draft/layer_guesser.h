// layer_guesser.h: guesses by a layer that the model itself brings along (multi-token prediction).
//
// What it keeps of a token is a field of the target's pool, which the target's steps fill for every token they compute
// (model/program/draft_layer.cpp): it never has to read a text first, and tree, disk and retraction carry it. A guess takes
// slots behind the sequence's own before its chunk does. What it stores there is computed again with the chunk.
// Threads: the engine thread. Fails: make_room() says that the pool is full.
#pragma once

#include <functional>
#include <vector>

#include "engine/draft/guesser.h"

namespace espalier {

// A layer that the checkpoint brings, as a source of guesses.
class LayerGuesser final : public Guesser {
 public:
  // kv: the target's pool.
  LayerGuesser(Model& layer, KvView kv, ComputeTeam& team, std::vector<TokenId> end_tokens)
      : Guesser(layer, kv, team, std::move(end_tokens)) {}

  // Gives a sequence slots up to that many of its tokens, if there are any.
  using TakeSlots = std::function<bool(Sequence& sequence, int length)>;
  void use(TakeSlots take_slots) { take_slots_ = std::move(take_slots); }

  int behind(Sequence& sequence) override;  // 0: a token before its last one is not stored
  bool make_room(Sequence& sequence, int rows) override;
  void let_go(Sequence& sequence) override;
  void clear() override {}
  Result<> check(int) const override { return success(); }

 private:
  int add(RaggedBatch& batch, const Turn& turn) const override;
  void computed(const Turn& turn) override;
  TakeSlots take_slots_;
};

}  // namespace espalier
