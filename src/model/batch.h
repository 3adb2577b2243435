// batch.h: what the engine hands to a model for one step, and the view of the token pool it computes in.
//
// A batch is ragged: decoding sequences (one row each), prompt chunks and verified drafts stand side by side, row after
// row. The model knows nothing of caches: slots and runs are plain numbers, and runs already cover the rows of this
// batch.
#pragma once

#include <span>

#include "espalier/types.h"
#include "kernels/kv_layout.h"
#include "model/logit_reader.h"

namespace espalier {

struct BatchSequence {
  int row_begin, rows;
  std::int64_t first_position;  // of row_begin; row i stands at first_position + i
  std::span<const KvRun> runs;  // where positions 0 .. first_position + rows - 1 lie
};

struct Batch {
  std::span<const TokenId> tokens;           // [rows]
  std::span<const Slot> slots;               // [rows], where each row's keys and values go
  std::span<const BatchSequence> sequences;  // in row order, covering all rows
  std::span<const int> logit_rows;           // rows whose logits are wanted, ascending
  LogitReader* reader = nullptr;             // of some of these, or null
  int rows() const { return static_cast<int>(tokens.size()); }
};

struct KvView {
  std::span<const KvLayer> layers;
};

}  // namespace espalier
