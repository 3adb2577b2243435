// gathers.h: what the ranks of a group tell each other of a row, counted from a program as they share it
// (split_program.h), before any weights are there.
//
// A product's input is gathered in the form that the product reads: of int8 a byte a value and sixteen bytes for every 32; what is
// added to the residual stream, what experts have between their matrices, and what else needs a whole row, in floats. Heads stay
// where they were computed up to the end of attention. So a layer of attention and a gated MLP has four gathers: the heads'
// outputs, attention's output, the MLP's inner values, its output.
// Units: bytes of one row, the parts of all ranks together. Threads: pure. Fails: never.
#pragma once

#include <cstdint>

#include "kernels/matmul/matmul.h"
#include "model/program/program.h"

namespace espalier {

// Counts of one step.
struct GatherWork {
  int gathers = 0;               // one after the other, however many rows there are
  std::int64_t row_bytes = 0;    // of each row of the batch
  std::int64_t end_bytes = 0;    // of each row that another token follows: behind the last layer's keys and values
  std::int64_t logit_bytes = 0;  // likewise, of the head

  double bytes(double rows, double wanted_rows) const {
    return rows * static_cast<double>(row_bytes) + wanted_rows * static_cast<double>(end_bytes + logit_bytes);
  }
};
// inputs: the form that products read: int8 of quantised weights, bf16 of such, f32 in exact mode.
GatherWork gathers_of(const Program& program, int ranks = 2, RowFormat inputs = RowFormat::int8);

}  // namespace espalier
