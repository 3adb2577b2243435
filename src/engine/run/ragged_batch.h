// ragged_batch.h: puts rows of several sequences one behind the other into the Batch that a model computes.
//
// Order: clear, then for each sequence add and the rows of it whose logits are wanted, then finish. Threads: the engine
// thread. What finish() gives points into here and holds until the next clear(), which keeps the memory.
#pragma once

#include <vector>

#include "model/batch.h"

namespace espalier {

class HeldTokens;
struct Sequence;

// Collects the rows of a step from all sequences, as the model wants them.
class RaggedBatch {
 public:
  void clear();
  // The tokens at [first, first + count), drafted ones included; the index of their first row. `held` has slots of
  // all positions up to there, the rows' own.
  int add(const Sequence& sequence, const HeldTokens& held, int first, int count);
  // States of the sequence that was added last.
  void add_states(const float* in, float* out) {
    sequences_.back().state_in = in;
    sequences_.back().state_out = out;
  }
  void add_mark(int rows, float* out) {  // ascending
    marks_.push_back({rows, out});
    mark_ends_.back() = marks_.size();
  }
  void set_rope_length(std::int64_t length) { sequences_.back().rope_length = length; }
  // Which row of the logits it will be. Requires: rows ascend; one asked for again at once is still computed once.
  int want_logits(int row);
  Batch finish();

 private:
  std::vector<TokenId> tokens_;
  std::vector<Slot> slots_, window_slots_;  // window slots: none where all lies in one space
  std::vector<BatchSequence> sequences_;    // their runs only once all are there: growing moves them
  std::vector<KvRun> runs_, window_runs_;
  std::vector<StateMark> marks_;
  std::vector<std::size_t> run_ends_, window_run_ends_, mark_ends_;  // [sequences]
  std::vector<int> logit_rows_;
};

}  // namespace espalier
