// elementwise.h: norms, rotation, and quantisation of activations.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/generic/reduce.h"
#include "kernels/cpu/generic/row_part.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

ESPALIER_LANES inline void rms_norm(const float* x, const float* gain, float eps, float* y, std::int64_t n) {
  Simd::F squares = Simd::zero();
  for_lanes_in_order(n, [&](std::int64_t i, int m) {
    Simd::F v = Simd::load_n(x + i, m);
    squares = Simd::fma(v, v, squares);
  });
  const float mean = Simd::reduce_add(squares) / static_cast<float>(n);
  const Simd::F factor = Simd::set1(1.0f / __builtin_sqrtf(mean + eps));
  meet();
  for_lanes(n, [&](std::int64_t i, int m) {
    Simd::F v = Simd::mul(Simd::load_n(x + i, m), factor);
    if (gain) v = Simd::mul(v, Simd::load_n(gain + i, m));
    Simd::store_n(y + i, v, m);
  });
}

// Some blocks of activations side by side: what is one number a block (its largest value, its sums) is then found for
// four blocks at once.
template <int kBlocks>
struct BlocksOfFloats {
  Simd::F half[2][kBlocks];

  // `left`: values at x, zeros behind them.
  ESPALIER_LANES BlocksOfFloats(const float* x, std::int64_t left) {
    for (int b = 0; b < kBlocks; ++b)
      for (int h = 0; h < 2; ++h) {
        const std::int64_t at = kActivationBlock * b + 16 * h, n = left - at;
        half[h][b] = n >= 16 ? Simd::load(x + at) : n > 0 ? Simd::load_n(x + at, static_cast<int>(n)) : Simd::zero();
      }
  }
  ESPALIER_LANES void largest(float* out) const {
    Simd::F top[kBlocks];
    for (int b = 0; b < kBlocks; ++b) top[b] = Simd::max(Simd::abs(half[0][b]), Simd::abs(half[1][b]));
    reduce_max(top, out);
  }
};

// What values are multiplied with to lie within `levels`, and what undoes it. Without branches, so that the divisions
// of four blocks are one; where all values are zero the factor does not matter.
template <int kBlocks>
struct BlockScales {
  float factor[kBlocks], scale[kBlocks];
  ESPALIER_LANES BlockScales(const BlocksOfFloats<kBlocks>& blocks, float levels) {
    float top[kBlocks];
    blocks.largest(top);
    for (int b = 0; b < kBlocks; ++b) {
      const float divisor = top[b] > 0.0f ? top[b] : levels;
      factor[b] = levels / divisor;
      scale[b] = top[b] / levels;
    }
  }
};

template <int kBlocks>
ESPALIER_LANES inline void store_scales(const float* scale, const Simd::F (&first)[kBlocks],
                                        const Simd::F (&second)[kBlocks], ActivationScale* out) {
  float sums[2][kBlocks];  // integers below 2^24: exact
  reduce_add(first, sums[0]);
  reduce_add(second, sums[1]);
  if (!stores_for_all()) return;
  for (int b = 0; b < kBlocks; ++b)
    out[b] = {scale[b],
              {static_cast<std::int32_t>(sums[0][b]), static_cast<std::int32_t>(sums[1][b])},
              scale[b] * (sums[0][b] + sums[1][b])};
}

// Values [at, end) in steps of four blocks, then one by one: step(blocks, at, its first block).
template <class Step>
ESPALIER_LANES inline void for_blocks(std::int64_t at, std::int64_t end, Step step) {
  for (; at + 4 * kActivationBlock <= end; at += 4 * kActivationBlock) step(std::integral_constant<int, 4>(), at);
  for (; at < end; at += kActivationBlock) step(std::integral_constant<int, 1>(), at);
}
// All of a row; whoever shares it takes `together` blocks at a time.
template <class Step>
ESPALIER_LANES inline void for_blocks(std::int64_t n, int together, Step step) {
  if constexpr (!kRowsAreShared) return for_blocks(0, n, step);
  const std::int64_t each = std::int64_t{kActivationBlock} * together;
  for (std::int64_t at = each * row_part(); at < n; at += each * row_parts())
    for_blocks(at, at + each < n ? at + each : n, step);
}

template <int kBlocks>
ESPALIER_LANES inline void quantise_blocks(const float* x, std::int64_t left, std::int8_t* q, ActivationScale* scales) {
  const BlocksOfFloats<kBlocks> blocks(x, left);
  const BlockScales<kBlocks> of(blocks, 127.0f);
  Simd::F rounded[2][kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    for (int h = 0; h < 2; ++h) {
      rounded[h][b] = Simd::round(Simd::mul(blocks.half[h][b], Simd::set1(of.factor[b])));
      Simd::store_i8(q + kActivationBlock * b + 16 * h, rounded[h][b]);
    }
  }
  store_scales(of.scale, rounded[0], rounded[1], scales);
}

ESPALIER_LANES inline void quantise(const float* x, std::uint8_t* out, std::int64_t n, std::int64_t begin,
                                    std::int64_t end) {
  auto* q = reinterpret_cast<std::int8_t*>(out) + begin;
  auto* scales = reinterpret_cast<ActivationScale*>(out + ActivationLayout::of(n).scales) + begin / kActivationBlock;
  for_blocks(end - begin, 4, [&](auto blocks, std::int64_t at) {
    quantise_blocks<blocks>(x + at, end - begin - at, q + at, scales + at / kActivationBlock);
  });
}

// One byte is enough where no value of a block stands far above the others: its low bytes are zero there, which
// products pass over (docs/decisions/activation-widths.md). The squares of the high bytes tell, in whole numbers below
// 2^24, so every instruction set decides alike.
inline constexpr float kEvenSquares = 25600.0f;  // the largest value is at most 4.5 times the root mean square

// Where a part of a wide row gets what belongs to some blocks.
struct PartOfRow {
  std::int8_t* q;
  ActivationScale* scales;
  ESPALIER_LANES PartOfRow(std::uint8_t* part, const ActivationLayout& layout, std::int64_t at)
      : q(reinterpret_cast<std::int8_t*>(part) + at),
        scales(reinterpret_cast<ActivationScale*>(part + layout.scales) + at / kActivationBlock) {}
};

// Returns which of the blocks have low bytes: bit 0 tells of the first.
template <int kBlocks>
ESPALIER_LANES inline unsigned quantise_wide_blocks(const float* x, std::int64_t left, PartOfRow high, PartOfRow low) {
  constexpr float kLevels = 127.0f * 256.0f;
  const Simd::F byte = Simd::set1(256.0f), inverse = Simd::set1(1.0f / 256.0f), most = Simd::set1(127.0f),
                least = Simd::set1(-127.0f);
  const BlocksOfFloats<kBlocks> blocks(x, left);
  const BlockScales<kBlocks> of(blocks, kLevels);
  float squares[kBlocks], high_scale[kBlocks];
  Simd::F value[2][kBlocks], upper[2][kBlocks], lower[2][kBlocks], square[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    for (int h = 0; h < 2; ++h) {
      value[h][b] = Simd::round(Simd::mul(blocks.half[h][b], Simd::set1(of.factor[b])));
      upper[h][b] = Simd::round(Simd::mul(value[h][b], inverse));
    }
    square[b] = Simd::fma(upper[0][b], upper[0][b], Simd::mul(upper[1][b], upper[1][b]));
    high_scale[b] = 256.0f * of.scale[b];
  }
  reduce_add(square, squares);
  unsigned marks = 0;
  for (int b = 0; b < kBlocks; ++b) {
    const bool even = squares[b] >= kEvenSquares || squares[b] == 0.0f;
    marks |= (even ? 0u : 1u) << b;
    for (int h = 0; h < 2; ++h) {
      // A tie gives 128 or -128: the one is no byte, the other has no opposite (Simd::dot4_centred).
      const Simd::F rest = Simd::max(Simd::min(Simd::sub(value[h][b], Simd::mul(upper[h][b], byte)), most), least);
      lower[h][b] = even ? Simd::zero() : rest;
      Simd::store_i8(high.q + kActivationBlock * b + 16 * h, upper[h][b]);
      Simd::store_i8(low.q + kActivationBlock * b + 16 * h, lower[h][b]);
    }
  }
  store_scales(high_scale, upper[0], upper[1], high.scales);
  store_scales(of.scale, lower[0], lower[1], low.scales);
  return marks;
}

ESPALIER_LANES inline void quantise_wide(const float* x, std::uint8_t* out, std::int64_t n) {
  const WideLayout layout = WideLayout::of(n);
  auto* marks = reinterpret_cast<std::uint64_t*>(out + layout.marks);
  for_blocks(n, 64, [&](auto blocks, std::int64_t at) {
    const std::int64_t block = at / kActivationBlock, bit = block % 64;  // steps of four blocks end where words do
    const std::uint64_t found = quantise_wide_blocks<blocks>(x + at, n - at, PartOfRow(out, layout.byte, at),
                                                             PartOfRow(out + layout.low, layout.byte, at));
    if (stores_for_all()) marks[block / 64] = (bit == 0 ? 0 : marks[block / 64]) | found << bit;
  });
}

ESPALIER_LANES inline void to_bf16(const float* x, std::uint16_t* out, std::int64_t n) {
  for (std::int64_t i = std::int64_t{16} * row_part(); i < (n + 31) / 32 * 32; i += std::int64_t{16} * row_parts()) {
    const std::int64_t left = n - i;
    const int m = left < 0 ? 0 : left < 16 ? static_cast<int>(left) : 16;
    Simd::store_bf16(out + i, Simd::load_n(x + i, m));
  }
}

ESPALIER_LANES inline void rotate_halves(float* head, const float* cosines, const float* sines, int half) {
  for_lanes(half, [&](std::int64_t i, int m) {
    Simd::F a = Simd::load_n(head + i, m), b = Simd::load_n(head + half + i, m);
    Simd::F c = Simd::load_n(cosines + i, m), s = Simd::load_n(sines + i, m);
    Simd::store_n(head + i, Simd::sub(Simd::mul(a, c), Simd::mul(b, s)), m);
    Simd::store_n(head + half + i, Simd::add(Simd::mul(b, c), Simd::mul(a, s)), m);
  });
}

}  // namespace espalier::kernels::ESPALIER_ISA
