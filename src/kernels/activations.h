// activations.h: one row of a layer's input as the int8 micro-kernels read it.
//
// A row is cut into blocks of 32 values at fixed positions of K (so the batch cannot matter, promise 1); each block has
// its own scale, amax / 127, and the sums of its two halves, which weight formats with a zero point or a minimum need.
// In memory all bytes of a row come first, then what belongs to its blocks: so sixteen rows are a matrix of bytes that
// a tile register can load, and no value straddles two cache lines:
//
//   q i8[values] | ActivationScale[ceil(k / 32)]            k values, zeros up to a whole cache line
//   high i8[values] | low i8[values] | ActivationScale[]    with sixteen bits: 256 * high + low
//
// No byte is -128.
//
// Sixteen bits are for the few layers whose inputs have outliers that eight cannot follow (queries, keys and values);
// they cost a second dot product in blocks that have one. In the others all low bytes are zero
// (docs/decisions/activation-widths.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier {

inline constexpr int kActivationBlock = 32;
inline constexpr int kBf16Block = 32;  // rows and panels of bf16 have zeros up to a whole one

struct ActivationScale {
  float scale;          // x is about q * scale, or (256 * high + low) * scale
  std::int32_t sum[2];  // of the block's first 16 values of q (or 256 * high + low), and of the others
  float weighted;       // scale * (sum[0] + sum[1])
};
static_assert(sizeof(ActivationScale) == 16);

struct ActivationLayout {
  std::size_t plane;   // bytes of q, of high, of low
  std::size_t scales;  // where the scales begin
  std::size_t bytes;   // of a row: an odd number of cache lines, else rows of some lengths would share a few cache sets

  // planes: 1, or 2 for sixteen bits.
  static constexpr ActivationLayout of(std::int64_t k, int planes) {
    constexpr std::size_t kLine = 64;
    const auto lines = [](std::size_t bytes) { return (bytes + kLine - 1) / kLine; };
    const std::size_t plane = lines(static_cast<std::size_t>(k)) * kLine,
                      scales = static_cast<std::size_t>(planes) * plane;
    const auto blocks = static_cast<std::size_t>((k + kActivationBlock - 1) / kActivationBlock);
    return {plane, scales, (lines(scales + blocks * sizeof(ActivationScale)) | 1) * kLine};
  }
};

}  // namespace espalier
