// activations.h: one row of a layer's input as the int8 micro-kernels read it.
//
// A row is cut into blocks of 32 values at fixed positions of K (so the batch cannot matter, promise 1); each block has
// its own scale, amax / 127, and the sums of its two halves, which weight formats with a zero point or a minimum need.
#pragma once

#include <cstdint>

namespace espalier {

inline constexpr int kActivationBlock = 32;

struct ActivationBlock {
  std::int8_t q[kActivationBlock];  // round to nearest even of x * 127 / amax
  std::int32_t sum[2];              // of q[0..15] and q[16..31]
  float scale;                      // x is about q * scale
};
static_assert(sizeof(ActivationBlock) == 44);

// The same with sixteen bits, as two signed bytes: x is about (256 * high + low) * scale. For the few layers whose
// inputs have outliers that eight bits cannot follow (queries, keys and values); costs a second dot product.
struct WideActivationBlock {
  std::int8_t high[kActivationBlock], low[kActivationBlock];
  std::int32_t sum[2];  // of 256 * high + low, by halves
  float scale;          // amax / 32512
};
static_assert(sizeof(WideActivationBlock) == 76);

}  // namespace espalier
