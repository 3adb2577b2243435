// elementwise.h: norms, activations, rotation, quantisation of activations, and the store of keys and values.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// Calls f(offset, lanes) for runs of 16, the last one shorter.
template <class F>
inline void for_lanes(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, 16);
  if (i < n) f(i, static_cast<int>(n - i));
}

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

// The block of `m` values at x as two vectors, zeros behind them.
struct BlockOfFloats {
  Simd::F half[2];
  BlockOfFloats(const float* x, std::int64_t m)
      : half{Simd::load_n(x, m < 16 ? static_cast<int>(m) : 16),
             m > 16 ? Simd::load_n(x + 16, m < 32 ? static_cast<int>(m - 16) : 16) : Simd::zero()} {}
  float largest() const { return Simd::reduce_max(Simd::max(Simd::abs(half[0]), Simd::abs(half[1]))); }
};

inline ActivationScale activation_scale(float scale, Simd::F first, Simd::F second) {
  // Integers below 2^24: the sums are exact.
  const float sums[2] = {Simd::reduce_add(first), Simd::reduce_add(second)};
  return {scale, {static_cast<std::int32_t>(sums[0]), static_cast<std::int32_t>(sums[1])}, scale * (sums[0] + sums[1])};
}

inline void quantise(const float* x, std::uint8_t* out, std::int64_t n) {
  const ActivationLayout layout = ActivationLayout::of(n, 1);
  auto* q = reinterpret_cast<std::int8_t*>(out);
  auto* scale = reinterpret_cast<ActivationScale*>(out + layout.scales);
  for (std::int64_t at = 0; at < n; at += kActivationBlock) {
    const BlockOfFloats block(x + at, n - at);
    const float top = block.largest();
    const Simd::F factor = Simd::set1(top > 0.0f ? 127.0f / top : 0.0f);
    const Simd::F first = Simd::round(Simd::mul(block.half[0], factor)),
                  second = Simd::round(Simd::mul(block.half[1], factor));
    Simd::store_i8(q + at, first);
    Simd::store_i8(q + at + 16, second);
    *scale++ = activation_scale(top / 127.0f, first, second);
  }
}

// One byte is enough where no value of a block stands far above the others: its low bytes are zero there, which
// products pass over (docs/decisions/activation-widths.md). The squares of the high bytes tell, in whole numbers below
// 2^24, so every instruction set decides alike.
inline constexpr float kEvenSquares = 25600.0f;  // the largest value is at most 4.5 times the root mean square

inline void quantise_wide(const float* x, std::uint8_t* out, std::int64_t n) {
  constexpr float kLevels = 127.0f * 256.0f;
  const Simd::F byte = Simd::set1(256.0f), inverse = Simd::set1(1.0f / 256.0f), most = Simd::set1(127.0f),
                least = Simd::set1(-127.0f);
  const ActivationLayout layout = ActivationLayout::of(n, 2);
  auto *high = reinterpret_cast<std::int8_t*>(out), *low = high + layout.plane;
  auto* scale = reinterpret_cast<ActivationScale*>(out + layout.scales);
  for (std::int64_t at = 0; at < n; at += kActivationBlock) {
    const BlockOfFloats block(x + at, n - at);
    const float top = block.largest();
    const Simd::F factor = Simd::set1(top > 0.0f ? kLevels / top : 0.0f);
    Simd::F value[2], upper[2], both[2];
    for (int h = 0; h < 2; ++h) {
      value[h] = Simd::round(Simd::mul(block.half[h], factor));
      upper[h] = Simd::round(Simd::mul(value[h], inverse));
    }
    const Simd::F squares = Simd::fma(upper[0], upper[0], Simd::mul(upper[1], upper[1]));
    const bool even = Simd::reduce_add(squares) >= kEvenSquares;
    for (int h = 0; h < 2; ++h) {
      // A tie gives 128 or -128: the one is no byte, the other has no opposite (Simd::dot4_centred).
      const Simd::F rest = Simd::max(Simd::min(Simd::sub(value[h], Simd::mul(upper[h], byte)), most), least),
                    lower = even ? Simd::zero() : rest;
      Simd::store_i8(high + at + 16 * h, upper[h]);
      Simd::store_i8(low + at + 16 * h, lower);
      both[h] = Simd::fma(upper[h], byte, lower);
    }
    *scale++ = activation_scale(top / kLevels, both[0], both[1]);
  }
}

inline void to_bf16(const float* x, std::uint16_t* out, std::int64_t n) {
  for (std::int64_t i = 0; i < (n + 31) / 32 * 32; i += 16) {
    const std::int64_t left = n - i;
    const int m = left < 0 ? 0 : left < 16 ? static_cast<int>(left) : 16;
    Simd::store_bf16(out + i, Simd::load_n(x + i, m));
  }
}

inline Simd::F sigmoid(Simd::F x) {
  constexpr float kMinusLog2e = -1.44269504088896340736f;
  return Simd::div(Simd::set1(1.0f), Simd::add(Simd::set1(1.0f), exp2(Simd::mul(x, Simd::set1(kMinusLog2e)))));
}

inline void silu_multiply(const float* gate, const float* up, float* out, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, int m) {
    Simd::F g = Simd::load_n(gate + i, m);
    Simd::store_n(out + i, Simd::mul(Simd::mul(g, sigmoid(g)), Simd::load_n(up + i, m)), m);
  });
}

inline void gelu_multiply(const float* gate, const float* up, float* out, std::int64_t n) {
  // x * (1 + tanh(u)) / 2 = x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3)
  for_lanes(n, [&](std::int64_t i, int m) {
    Simd::F g = Simd::load_n(gate + i, m);
    Simd::F inner = Simd::mul(g, Simd::fma(Simd::mul(g, g), Simd::set1(0.044715f), Simd::set1(1.0f)));
    Simd::F value = Simd::mul(g, sigmoid(Simd::mul(inner, Simd::set1(1.5957691216057308f))));
    Simd::store_n(out + i, Simd::mul(value, Simd::load_n(up + i, m)), m);
  });
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

inline void store_kv(const KvLayer& kv, Slot slot, const float* k, const float* v, int kv_head, int head_dim) {
  const int padded = padded_head(head_dim), size = element_bytes(kv.type);
  alignas(64) float wide[kMaxHeadDim];
  alignas(64) std::byte stored[kMaxHeadDim * sizeof(float)];
  const std::size_t segment = segment_offset(kv, kv_head, slot);
  const Slot in_segment = slot % kSegmentSlots;
  const std::size_t row_bytes = static_cast<std::size_t>(padded) * static_cast<std::size_t>(size);

  pad_head(v, wide, head_dim);
  const float value_scale =
      encode_kv(kv.type, wide, padded, kv.values + segment + static_cast<std::size_t>(in_segment) * row_bytes);
  pad_head(k, wide, head_dim);
  const float key_scale = encode_kv(kv.type, wide, padded, stored);

  std::byte* group = kv.keys + segment + static_cast<std::size_t>(in_segment / kSlotGroup) * row_bytes * kSlotGroup;
  const int lane = slot % kSlotGroup;
  for (int d = 0; d < padded; ++d) {
    const int at = kv.type == KvType::bf16 ? (d / 2 * kSlotGroup + lane) * 2 + d % 2 : d * kSlotGroup + lane;
    __builtin_memcpy(group + at * size, stored + d * size, static_cast<std::size_t>(size));
  }
  if (has_scales(kv.type)) {
    kv.key_scales[static_cast<std::size_t>(kv_head) * kv.head_scales + static_cast<std::size_t>(slot)] = key_scale;
    kv.value_scales[static_cast<std::size_t>(kv_head) * kv.head_scales + static_cast<std::size_t>(slot)] = value_scale;
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
