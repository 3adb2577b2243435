// batch.h: what the engine hands to a model for one step, and the view of the token pool it computes in.
//
// A batch is ragged: decoding sequences (one row each), prompt chunks and verified drafts stand side by side, row after
// row. The model knows nothing of caches: slots, runs and states are plain numbers and memory, and runs already cover
// the rows of this batch. Layers that are read through a window may lie in slots of their own (KvView::in_window_slots).
#pragma once

#include <array>
#include <span>

#include "espalier/types.h"
#include "kernels/attention/kv_layout.h"
#include "model/logit_reader.h"
#include "model/row_draw.h"

namespace espalier {

class LoraAdapter;  // model/adapters/adapter.h

// Where the state goes that stands behind some of a sequence's rows: the first `rows` of them, fewer than all.
struct StateMark {
  int rows;
  float* out;
};

// Where a token stands in time, height and width, of a picture or a video; of text all three are the same.
using AxisPositions = std::array<std::int32_t, 3>;

// One sequence's rows of a batch.
struct BatchSequence {
  int row_begin, rows;
  std::int64_t first_position;  // of row_begin; row i stands at first_position + i
  std::span<const KvRun> runs;  // where positions 0 .. first_position + rows - 1 lie
  // The state after all positions before first_position, and where the one after the last row goes; Keeps::state_floats
  // each. They may be the same memory. state_in null: the state of an empty text. Both null where none is kept.
  const float* state_in = nullptr;
  float* state_out = nullptr;
  // Further states that are wanted, by ascending rows, each in memory of its own. Whatever carries a state writes them.
  std::span<const StateMark> state_marks = {};
  // The length of text by which angles are chosen that depend on it (RopeSpec::long_after); 0: this chunk's end.
  std::int64_t rope_length = 0;
  // Where they lie in the window slots. Before the first position that the first row sees through a window, runs need
  // only cover positions: what their slots hold may be anything.
  std::span<const KvRun> window_runs = {};
  // [rows] or empty: the positions by which angles of several axes turn (RopeSpec::axes). Where it is empty a row's own
  // position + axis_shift counts on every axis.
  std::span<const AxisPositions> axes = {};
  std::int64_t axis_shift = 0;
  // [rows] or both empty: the first and the last position of the span in which each row's tokens see one another both ways
  // (a picture); a row of no span has its own position. A span is never cut between batches.
  std::span<const std::int32_t> span_first = {}, span_last = {};
  // What is added to the model's matrices for its rows, bound to this model; null: nothing.
  const LoraAdapter* adapter = nullptr;
};

// Rows of tables that are added up for each row of the batch, `count` of them.
struct RowBlend {
  int count = 0;
  std::span<const std::int32_t> rows;  // [rows of the batch][count], of the table
  std::span<const float> weights;      // as many
};

// What a tower's batch has beside rows (tower.h); all of it is numbered, and operations say which they read.
struct PictureRows {
  std::span<const RowBlend> blends;
  // For GatherRowsOp: the rows that make one, -1 for zeros.
  std::span<const std::span<const std::int32_t>> maps;
  std::span<const BatchSequence> windows;  // rows that see one another in some layers, in row order
  std::span<const BatchSequence> merged;   // the same behind a GatherRowsOp among the layers, of the rows by then
  std::span<float* const> outputs;         // where GiveOp puts its rows, one behind the other
};

// Rows of several sequences, computed in one walk through the model.
struct Batch {
  std::span<const TokenId> tokens;           // [rows]
  std::span<const Slot> slots;               // [rows], where each row's keys and values go
  std::span<const BatchSequence> sequences;  // in row order, covering all rows
  std::span<const int> logit_rows;           // rows whose logits are wanted, ascending
  LogitReader* reader = nullptr;             // of some of these, or null
  std::span<const Slot> window_slots = {};   // [rows], of layers in window slots; empty where there are none
  // Of each input that the caller brings: where a row's floats are, null for rows that have none. Empty: no row has any.
  // A decoder's input 0 stands for embeddings, 1 .. for what is added behind layers 0 .. (ModelSpec::deep_inputs); a
  // tower's input 0 is its patches.
  std::span<const std::span<const float* const>> given = {};
  const PictureRows* pictures = nullptr;     // of towers
  std::span<const std::uint8_t> types = {};  // [rows] or empty: the part of a pair that each row's token is of; else 0
  const RowDraws* draws = nullptr;           // of models that draw; null: all rows are read
  int rows() const { return static_cast<int>(tokens.size()); }
};

// Where a batch's keys and values lie.
struct KvView {
  std::span<const KvLayer> layers;  // one for each of Keeps::per_token
  // [layers] or empty: not 0 where it lies in window slots.
  std::span<const unsigned char> in_window_slots = {};
};

}  // namespace espalier
