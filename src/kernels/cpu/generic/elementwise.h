// elementwise.h: norms, rotation, quantisation of activations, and the store of keys and values.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/generic/reduce.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

inline void rms_norm(const float* x, const float* gain, float eps, float* y, std::int64_t n) {
  Simd::F squares = Simd::zero();
  for_lanes(n, [&](std::int64_t i, int m) {
    Simd::F v = Simd::load_n(x + i, m);
    squares = Simd::fma(v, v, squares);
  });
  const float mean = Simd::reduce_add(squares) / static_cast<float>(n);
  const Simd::F factor = Simd::set1(1.0f / __builtin_sqrtf(mean + eps));
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
  BlocksOfFloats(const float* x, std::int64_t left) {
    for (int b = 0; b < kBlocks; ++b)
      for (int h = 0; h < 2; ++h) {
        const std::int64_t at = kActivationBlock * b + 16 * h, n = left - at;
        half[h][b] = n >= 16 ? Simd::load(x + at) : n > 0 ? Simd::load_n(x + at, static_cast<int>(n)) : Simd::zero();
      }
  }
  void largest(float* out) const {
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
  BlockScales(const BlocksOfFloats<kBlocks>& blocks, float levels) {
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
inline void store_scales(const float* scale, const Simd::F (&first)[kBlocks], const Simd::F (&second)[kBlocks],
                         ActivationScale* out) {
  float sums[2][kBlocks];  // integers below 2^24: exact
  reduce_add(first, sums[0]);
  reduce_add(second, sums[1]);
  for (int b = 0; b < kBlocks; ++b)
    out[b] = {scale[b],
              {static_cast<std::int32_t>(sums[0][b]), static_cast<std::int32_t>(sums[1][b])},
              scale[b] * (sums[0][b] + sums[1][b])};
}

// A row in steps of four blocks, then one by one: step(blocks, at, its first block).
template <class Step>
inline void for_blocks(std::int64_t n, Step step) {
  std::int64_t at = 0;
  for (; at + 4 * kActivationBlock <= n; at += 4 * kActivationBlock) step(std::integral_constant<int, 4>(), at);
  for (; at < n; at += kActivationBlock) step(std::integral_constant<int, 1>(), at);
}

template <int kBlocks>
inline void quantise_blocks(const float* x, std::int64_t left, std::int8_t* q, ActivationScale* scales) {
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

inline void quantise(const float* x, std::uint8_t* out, std::int64_t n, std::int64_t begin, std::int64_t end) {
  auto* q = reinterpret_cast<std::int8_t*>(out) + begin;
  auto* scales = reinterpret_cast<ActivationScale*>(out + ActivationLayout::of(n).scales) + begin / kActivationBlock;
  for_blocks(end - begin, [&](auto blocks, std::int64_t at) {
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
  PartOfRow(std::uint8_t* part, const ActivationLayout& layout, std::int64_t at)
      : q(reinterpret_cast<std::int8_t*>(part) + at),
        scales(reinterpret_cast<ActivationScale*>(part + layout.scales) + at / kActivationBlock) {}
};

// Returns which of the blocks have low bytes: bit 0 tells of the first.
template <int kBlocks>
inline unsigned quantise_wide_blocks(const float* x, std::int64_t left, PartOfRow high, PartOfRow low) {
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

inline void quantise_wide(const float* x, std::uint8_t* out, std::int64_t n) {
  const WideLayout layout = WideLayout::of(n);
  auto* marks = reinterpret_cast<std::uint64_t*>(out + layout.marks);
  for_blocks(n, [&](auto blocks, std::int64_t at) {
    const std::int64_t block = at / kActivationBlock, bit = block % 64;  // steps of four blocks end where words do
    const std::uint64_t found = quantise_wide_blocks<blocks>(x + at, n - at, PartOfRow(out, layout.byte, at),
                                                             PartOfRow(out + layout.low, layout.byte, at));
    marks[block / 64] = (bit == 0 ? 0 : marks[block / 64]) | found << bit;
  });
}

inline void to_bf16(const float* x, std::uint16_t* out, std::int64_t n) {
  for (std::int64_t i = 0; i < (n + 31) / 32 * 32; i += 16) {
    const std::int64_t left = n - i;
    const int m = left < 0 ? 0 : left < 16 ? static_cast<int>(left) : 16;
    Simd::store_bf16(out + i, Simd::load_n(x + i, m));
  }
}

inline void rotate_halves(float* head, const float* cosines, const float* sines, int half) {
  for_lanes(half, [&](std::int64_t i, int m) {
    Simd::F a = Simd::load_n(head + i, m), b = Simd::load_n(head + half + i, m);
    Simd::F c = Simd::load_n(cosines + i, m), s = Simd::load_n(sines + i, m);
    Simd::store_n(head + i, Simd::sub(Simd::mul(a, c), Simd::mul(b, s)), m);
    Simd::store_n(head + half + i, Simd::add(Simd::mul(b, c), Simd::mul(a, s)), m);
  });
}

inline std::uint8_t float_to_f8(float x, int mantissa_bits, float largest) {
  // Round to nearest even on the format's grid; callers scale so that |x| <= largest.
  const std::uint8_t sign = x < 0.0f ? 0x80 : 0;
  float a = x < 0.0f ? -x : x;
  if (!(a < largest)) a = largest;
  const int bias = mantissa_bits == 3 ? 7 : 15;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &a, 4);
  int exponent = static_cast<int>(bits >> 23) - 127;
  if (exponent < 1 - bias) exponent = 1 - bias;  // subnormals share the smallest exponent
  float unit = 1.0f;                             // the grid's step at this exponent
  for (int e = exponent - mantissa_bits; e < 0; ++e) unit *= 0.5f;
  for (int e = 0; e < exponent - mantissa_bits; ++e) unit *= 2.0f;
  const auto steps = static_cast<std::uint32_t>(__builtin_nearbyintf(a / unit));
  // steps counts units, 2^mantissa_bits of which make the exponent's power of two: codes are consecutive integers.
  const auto code = steps + (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa_bits);
  return static_cast<std::uint8_t>(sign | code);
}

// Writes one token's vector as the pool's type: `wide` holds the padded floats; returns its scale (1 when unscaled).
inline float encode_kv(KvType type, float* wide, int padded, std::byte* out) {
  float scale = 1.0f;
  if (has_scales(type)) {
    Simd::F top = Simd::zero();
    for (int d = 0; d < padded; d += 16) top = Simd::max(top, Simd::abs(Simd::load(wide + d)));
    const float largest = type == KvType::i8 ? 127.0f : type == KvType::f8_e4m3 ? 448.0f : 57344.0f;
    const float amax = Simd::reduce_max(top);
    scale = amax / largest;
    const Simd::F factor = Simd::set1(amax > 0.0f ? largest / amax : 0.0f);
    for (int d = 0; d < padded; d += 16) Simd::store(wide + d, Simd::mul(Simd::load(wide + d), factor));
  }
  for (int d = 0; d < padded; d += 16) {
    const Simd::F v = Simd::load(wide + d);
    switch (type) {
      case KvType::f32:
        Simd::store(reinterpret_cast<float*>(out) + d, v);
        break;
      case KvType::bf16:
        Simd::store_bf16(reinterpret_cast<std::uint16_t*>(out) + d, v);
        break;
      case KvType::f16:
        Simd::store_f16(reinterpret_cast<std::uint16_t*>(out) + d, v);
        break;
      case KvType::i8:
        Simd::store_i8(reinterpret_cast<std::int8_t*>(out) + d, Simd::round(v));
        break;
      case KvType::f8_e4m3:
        for (int i = d; i < d + 16; ++i) out[i] = static_cast<std::byte>(float_to_f8(wide[i], 3, 448.0f));
        break;
      case KvType::f8_e5m2:
        for (int i = d; i < d + 16; ++i) out[i] = static_cast<std::byte>(float_to_f8(wide[i], 2, 57344.0f));
        break;
    }
  }
  return scale;
}

inline void pad_head(const float* from, float* to, int head_dim) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(head_dim) * sizeof(float));
  for (int d = head_dim; d < padded_head(head_dim); ++d) to[d] = 0.0f;
}

// Values of one slot to its lane of a group.
template <class T>
inline void spread(const std::byte* values, int count, std::byte* group, int lane) {
  for (int i = 0; i < count; ++i)
    __builtin_memcpy(group + static_cast<std::size_t>(i * kSlotGroup + lane) * sizeof(T),
                     values + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
}

// A key to its lane of a group of slots.
inline void store_key(KvType type, const std::byte* stored, int padded, std::byte* group, int lane) {
  switch (element_bytes(type)) {
    case 4:
      return spread<std::uint32_t>(stored, padded, group, lane);
    case 2:
      if (type == KvType::bf16) return spread<std::uint32_t>(stored, padded / 2, group, lane);  // pairs
      return spread<std::uint16_t>(stored, padded, group, lane);
    default:
      return spread<std::uint8_t>(stored, padded, group, lane);
  }
}

inline void store_kv(const KvLayer& kv, Slot slot, const float* k, const float* v, int kv_head, HeadDims dims) {
  alignas(64) float wide[kMaxKeyDim];
  alignas(64) std::byte stored[kMaxKeyDim * sizeof(float)];
  const auto size = static_cast<std::size_t>(element_bytes(kv.type)),
             key_bytes = static_cast<std::size_t>(padded_head(dims.key)) * size,
             value_bytes = static_cast<std::size_t>(padded_head(dims.value)) * size,
             in_segment = static_cast<std::size_t>(slot % kSegmentSlots),
             scale = static_cast<std::size_t>(kv_head) * kv.head_scales + static_cast<std::size_t>(slot);
  if (v) {
    pad_head(v, wide, dims.value);
    const float factor = encode_kv(kv.type, wide, padded_head(dims.value),
                                   kv.values + value_offset(kv, kv_head, slot) + in_segment * value_bytes);
    if (has_scales(kv.type)) kv.value_scales[scale] = factor;
  }
  pad_head(k, wide, dims.key);
  std::byte* const keys = kv.keys + key_offset(kv, kv_head, slot);
  std::byte* const row = kv.form == KvForm::latent ? keys + in_segment * key_bytes : stored;
  const float factor = encode_kv(kv.type, wide, padded_head(dims.key), row);
  if (has_scales(kv.type)) kv.key_scales[scale] = factor;
  if (kv.form != KvForm::latent)
    store_key(kv.type, stored, padded_head(dims.key), keys + in_segment / kSlotGroup * key_bytes * kSlotGroup,
              slot % kSlotGroup);
}

}  // namespace espalier::kernels::ESPALIER_ISA
