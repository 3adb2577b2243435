// activations.h: one row of a layer's input as the int8 micro-kernels read it.
//
// A row is cut into blocks of 32 values at fixed positions of K (so the batch cannot matter, promise 1); each block has
// its own scale, amax / 127, and the sums of its two halves, which weight formats with a zero point or a minimum need.
// In memory all bytes of a row come first, then what belongs to its blocks: so sixteen rows are a matrix of bytes that
// a tile register can load, and no value straddles two cache lines:
//
//   q i8[values] | ActivationScale[ceil(k / 32)]            k values, zeros up to a whole cache line
//
// A row of sixteen bits is the sum of two such rows, one of high bytes and one of low ones, whose scales are a 256th of
// theirs; bit b % 64 of word b / 64 tells that block b has low bytes:
//
//   high bytes | low bytes | u64[ceil(blocks / 64)]
//
// No byte is -128.
//
// Sixteen bits are for the few layers whose inputs have outliers that eight cannot follow (queries, keys and values);
// they cost a second dot product in blocks that have low bytes, which most do not need
// (docs/decisions/activation-widths.md). A product adds up all blocks of high bytes, then those of low bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier {

inline constexpr int kActivationBlock = 32;
inline constexpr int kBf16Block = 32;  // rows and panels of bf16 have zeros up to a whole one

// How a block of codes stands for floats, and the sums that formats with a zero point need.
struct ActivationScale {
  float scale;          // x is about q * scale
  std::int32_t sum[2];  // of the block's first 16 values of q, and of the others
  float weighted;       // scale * (sum[0] + sum[1])
};
static_assert(sizeof(ActivationScale) == 16);

// Always inlined: a copy that the linker takes from one instruction set's file would serve all others.
namespace activation_layout {
inline constexpr std::size_t kLine = 64;
[[gnu::always_inline]] constexpr std::size_t lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine;
}
// An odd number of cache lines: else rows of some lengths would share a few cache sets.
[[gnu::always_inline]] constexpr std::size_t odd_lines(std::size_t bytes) {
  return (lines(bytes) | 1) * kLine;
}
}  // namespace activation_layout

// Where the parts of a row of one-byte activations lie.
struct ActivationLayout {
  std::size_t scales;  // where the scales begin
  std::size_t bytes;   // of a row

  [[gnu::always_inline]] static constexpr ActivationLayout of(std::int64_t k) {
    const std::size_t scales = activation_layout::lines(static_cast<std::size_t>(k)) * activation_layout::kLine;
    return {scales, activation_layout::odd_lines(scales + blocks(k) * sizeof(ActivationScale))};
  }
  [[gnu::always_inline]] static constexpr std::size_t blocks(std::int64_t k) {
    return static_cast<std::size_t>((k + kActivationBlock - 1) / kActivationBlock);
  }
};

// Where the parts of a row of two-byte activations lie.
struct WideLayout {
  ActivationLayout byte;          // of the high bytes' part, and of the low bytes'
  std::size_t low, marks;         // where the low bytes' part begins, and the words
  std::size_t mark_words, bytes;  // how many these are; bytes of a row

  [[gnu::always_inline]] static constexpr WideLayout of(std::int64_t k) {
    const ActivationLayout byte = ActivationLayout::of(k);
    const std::size_t words = (ActivationLayout::blocks(k) + 63) / 64, marks = 2 * byte.bytes;
    return {byte, byte.bytes, marks, words, activation_layout::odd_lines(marks + words * sizeof(std::uint64_t))};
  }
};

}  // namespace espalier
