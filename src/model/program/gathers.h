// gathers.h: what the ranks of a group tell each other of a row, where every product is split by its output columns and
// no sum crosses ranks: each part of a row that all of them read is gathered before.
//
// A product's input is gathered as the product reads it, in one byte a value and a scale for every 32; what is added
// to the residual stream, and what else needs a whole row, in floats. Heads stay where they were computed up to the end
// of attention. So a layer of attention and a gated MLP has four gathers: the heads' outputs, attention's output, the
// MLP's inner values, its output.
// Units: bytes of one row, the parts of all ranks together. Threads: pure. Fails: never.
#pragma once

#include <cstdint>

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
GatherWork gathers_of(const Program& program);

}  // namespace espalier
