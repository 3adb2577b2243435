// sequence_parts.h: the rows of each sequence of a batch, up to each state that is wanted of it; made once a step for all layers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::cuda {

// Rows that follow one another. state_in null: the state of an empty text; state_out null: it is not kept.
struct SequencePart {
  int row_begin, rows;
  std::int64_t first_position;
  const float* state_in;
  float* state_out;
};

// Parts of sequence i are [begin[i], begin[i + 1]), one behind the other: each but the first begins with the state that the one
// before left. In the device's memory.
struct SequenceParts {
  const SequencePart* parts;
  const int* begin;  // [count + 1]
  int count;
};

}  // namespace espalier::cuda
