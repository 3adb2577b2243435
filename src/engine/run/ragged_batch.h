// ragged_batch.h: puts rows of several sequences one behind the other into the Batch that a model computes.
//
// Order: clear, then for each sequence add and the rows of it whose logits are wanted, then finish. Threads: the engine
// thread. What finish() gives points into here and holds until the next clear(), which keeps the memory.
#pragma once

#include <cstdint>
#include <vector>

#include "model/batch.h"

namespace espalier {

class HeldTokens;
struct Sequence;

// What sequences with pictures bring beside their rows; empty while there is none.
struct RaggedPictures {
  struct Part {  // of one sequence, in each list
    std::size_t sequence, axes_begin, axes, spans_begin, spans;
  };
  std::vector<std::vector<const float*>> given;  // [input][row]; rows behind the last picture are missing
  std::vector<std::span<const float* const>> inputs;
  std::vector<AxisPositions> axes;
  std::vector<std::int32_t> span_first, span_last;
  std::vector<Part> parts;
};

// Collects the rows of a step from all sequences, as the model wants them.
class RaggedBatch {
 public:
  void clear();
  // The tokens at [first, first + count), drafted ones included; the index of their first row. `held` has slots of
  // all positions up to there, the rows' own.
  int add(const Sequence& sequence, const HeldTokens& held, int first, int count);
  // One token behind all that it has, which it is about to have.
  int add_next(const HeldTokens& held, int position, TokenId token);
  // States of the sequence that was added last.
  void add_states(const float* in, float* out) {
    sequences_.back().state_in = in;
    sequences_.back().state_out = out;
  }
  void add_mark(int rows, float* out) {  // ascending
    marks_.push_back({rows, out});
    mark_ends_.back() = marks_.size();
  }
  // Of the sequence that was added last, which computes its next `count` tokens: rows of pictures among them, where they
  // stand, and who sees whom. inputs: rows that a picture brings for each of its tokens.
  void add_pictures(const Sequence& sequence, int count, int inputs);
  void see_both_ways();                      // its rows see all of them
  void add_types(const Sequence& sequence);  // which part of a pair its tokens are of
  void set_axis_shift(std::int64_t shift) { sequences_.back().axis_shift = shift; }
  void set_adapter(const LoraAdapter* adapter) { sequences_.back().adapter = adapter; }
  void set_rope_length(std::int64_t length) { sequences_.back().rope_length = length; }
  // Which row of the logits it will be. Requires: rows ascend; one asked for again at once is still computed once.
  int want_logits(int row);
  Batch finish();

 private:
  int begin_sequence(const HeldTokens& held, int first, int count);
  void add_row(const HeldTokens& held, int position, TokenId token);
  void give_rows(const Sequence& sequence, int row_begin, int count, int inputs);
  void place_on_axes(const Sequence& sequence, int count, RaggedPictures::Part& part);
  void join_spans(const Sequence& sequence, int count, RaggedPictures::Part& part);
  void finish_pictures(Batch& batch);
  std::vector<TokenId> tokens_;
  std::vector<Slot> slots_, window_slots_;  // window slots: none where all lies in one space
  std::vector<BatchSequence> sequences_;    // their runs only once all are there: growing moves them
  std::vector<KvRun> runs_, window_runs_;
  std::vector<StateMark> marks_;
  std::vector<std::size_t> run_ends_, window_run_ends_, mark_ends_;  // [sequences]
  std::vector<int> logit_rows_;
  std::vector<std::uint8_t> types_;  // rows behind the last second part are missing
  RaggedPictures pictures_;
};

}  // namespace espalier
