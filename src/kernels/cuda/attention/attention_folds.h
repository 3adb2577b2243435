// attention_folds.h: how what queries get of blocks of positions is put together, in order of position, and how it ends; and where
// it lies where the work is in pieces. For kernels of attention.
//
// Every function is one thread's, of one query or of one element of its value. Include kernels/cuda/simt/simd.h first.
// Threads: any. Fails: never.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cuda/attention/attention_task.h"

namespace espalier::cuda::attention {

using kernels::simt::exp2;
using kernels::simt::Simd;

inline constexpr float kNothing = -__builtin_inff();  // the maximum of a query that has seen nothing
inline constexpr float kLog2e = 1.44269504088896340736f;

// --- folds ---

// Factors of what is folded and of what a block adds, and the maximum of both.
struct Joined {
  float kept, added, maximum;
};
ESPALIER_ON_DEVICE inline Joined join(float so_far, float of_block) {
  constexpr float kNone = -3.0e38f;  // in place of -inf, so that differences stay numbers
  const float before = Simd::max(so_far, kNone), now = Simd::max(of_block, kNone), top = Simd::max(before, now);
  return {exp2(before - top), exp2(now - top), Simd::max(so_far, of_block)};
}
ESPALIER_ON_DEVICE inline float join_sums(const Joined& joined, float so_far, float of_block) {
  return fmaf(of_block, joined.added, so_far * joined.kept);
}
// What is there first is not used.
ESPALIER_ON_DEVICE inline float join_values(float kept, float added, float so_far, float of_block) {
  return fmaf(of_block, added, kept == 0.0f ? 0.0f : so_far * kept);
}

// The end of a query's fold, of one element of its value.
ESPALIER_ON_DEVICE inline void finish(const AttendTask& t, int row, int head, int element, float maximum, float sum,
                                      float folded) {
  const bool nothing = maximum == kNothing;
  float value = nothing ? 0.0f : folded;
  if (t.end_in_state) {
    float* const to = t.states.of(row, head);
    to[element] = value;
    if (element != 0) return;
    to[padded_head(t.dims.value)] = maximum;
    to[padded_head(t.dims.value) + 1] = sum;
    return;
  }
  if (element >= t.dims.value) return;
  if (t.sinks != nullptr && !nothing) {  // as a block of one position whose value is zero
    const float logit = t.sinks[head] * kLog2e, top = logit > maximum ? logit : maximum;
    const float of_sink = exp2(logit - top), of_rest = exp2(maximum - top);
    sum = sum * of_rest + of_sink;
    value = value * of_rest;
  }
  t.out[row * t.out_stride + std::int64_t{head} * t.dims.value + element] = value / (nothing ? 1.0f : sum);
}

// --- partials ---

ESPALIER_ON_DEVICE inline int first_block_of(const QueryRow& row) {
  return row.first < 0 ? 0 : row.first / kAttentionBlock;
}
ESPALIER_ON_DEVICE inline int end_block_of(const QueryRow& row) {
  return row.last < 0 ? 0 : row.last / kAttentionBlock + 1;
}
ESPALIER_ON_DEVICE inline float* partial_of(const AttendTask& t, int row_index, int block, int head) {
  const std::int64_t blocks = std::int64_t{t.pieces} * t.blocks_each;
  return t.partials + ((row_index * blocks + block) * t.heads + head) * FoldStates::stride_of(t.dims.value);
}

}  // namespace espalier::cuda::attention
