// sequence_walk.h: the rows of one sequence of a batch, part by part.
//
// Units: rows, counted from the sequence's first. Threads: all of a block alike. Fails: never.
#pragma once

#include "kernels/cuda/sequence_parts.h"
#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// A sequence: its parts are one run of rows, which begins at row_begin of the batch.
struct Sequence {
  const SequencePart* parts;
  int count, row_begin = 0, rows = 0;
  std::int64_t first_position = 0;
  const float* state_in = nullptr;  // before its first row; null: of an empty text

  ESPALIER_ON_DEVICE Sequence(const SequenceParts& all, int number)
      : parts(all.parts + all.begin[number]), count(all.begin[number + 1] - all.begin[number]) {
    if (count == 0) return;
    row_begin = parts->row_begin;
    first_position = parts->first_position;
    state_in = parts->state_in;
    for (int i = 0; i < count; ++i) rows += parts[i].rows;
  }
};

// Of each part: over_rows(begin, end), then keep(state_out) where the state is wanted.
template <class OverRows, class Keep>
ESPALIER_ON_DEVICE void over_parts(const Sequence& sequence, OverRows over_rows, Keep keep) {
  int row = 0;
  for (int i = 0; i < sequence.count; ++i) {
    const SequencePart part = sequence.parts[i];
    if (part.rows > 0) over_rows(row, row + part.rows);
    row += part.rows;
    if (part.state_out != nullptr) keep(part.state_out);
  }
}

}  // namespace espalier::cuda
