// sample_task.h: rows of logits to tokens on a device: the CPU's tokens, bit for bit (sampling/row_scan.h, sampling/plain_draw.h).
//
// A block of threads scans 1024 logits of a row as sampling::scan_block() does, sixteen lanes being sixteen threads; then one
// block of threads a row puts these together in order and finds the token.
// Threads: asynchronous on a stream. Fails: never; a row's fault is told with its token.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt/simt.h"
#include "model/row_draw.h"

namespace espalier::device {

// A token that is wanted: RowDraw, with the mask in the device's memory.
struct SampledRow {
  std::int32_t row;
  bool greedy;
  double sharpness, uniform;
  const std::uint32_t* mask;  // null: all tokens
};

// What is known of each block of 1024 logits of a row.
struct BlockOfRow {
  double sum;
  float max;          // NaN where one is allowed
  std::int32_t best;  // the first token of the largest logit
};

// Tokens of some rows of logits, which are finished as they are read: times `scale`, then capped.
struct SampleTask {
  const float* logits;  // [rows][stride]
  std::int64_t stride;
  int vocabulary;
  float scale, cap;        // cap 0: none
  const SampledRow* rows;  // [count]
  int count;
  BlockOfRow* blocks;  // [count][blocks of a row], written and read
  DrawnToken* out;     // [count]

  ESPALIER_EITHER int blocks_of_row() const { return (vocabulary + 1023) / 1024; }
};
void sample(simt::Stream stream, const SampleTask& task);

}  // namespace espalier::device
