// recurrence_task.h: layers that carry a state through the rows of each sequence (kernels/cpu/recurrence.h says what they
// compute), with the CPU's operations in the CPU's order.
//
// Pointers into rows are those of row 0 of the batch; `state` is the layer's first float in a sequence's state.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cpu/recurrence.h"
#include "kernels/cuda/batch_rows.h"
#include "kernels/cuda/sequence_parts.h"
#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// `of` without state_in, state_out and rows; channels [begin, end).
struct ConvolveTask {
  SequenceParts sequences;
  ConvolutionTask of;
  std::size_t state;
};
void convolve(simt::Stream stream, const ConvolveTask& task);

// RecurrenceOp of model/program/op.h.
struct RecurTask {
  SequenceParts sequences;
  BatchRows queries, keys, values, decay, beta, probe, answer, out;
  const float *constant_decay, *skip;  // [heads], or null
  int heads, key_heads, key_dim, value_dim, decay_width;
  bool in_turns, delta;
  float scale;
  std::size_t state;
};
void recur(simt::Stream stream, const RecurTask& task);

// `of` without state_in, state_out and rows.
struct ScanTask {
  SequenceParts sequences;
  SelectiveScanTask of;
  std::size_t state;
};
void scan(simt::Stream stream, const ScanTask& task);

// `of` without state_in, state_out and rows.
struct FadeTask {
  SequenceParts sequences;
  FadingSumTask of;
  std::size_t state;
};
void fade(simt::Stream stream, const FadeTask& task);

// CompressOp of model/program/op.h (model/cpu/stages/compress_stage.cpp is what it must equal). width: of out.
struct CompressTask {
  SequenceParts sequences;
  BatchRows values, gates, out;
  const float* bias;  // [every][gate_width], or null
  int width, gate_width, every;
  bool overlapping;
  std::size_t state;
};
void compress(simt::Stream stream, const CompressTask& task);

}  // namespace espalier::cuda
