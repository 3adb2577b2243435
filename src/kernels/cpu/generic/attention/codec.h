// codec.h: stored keys and values as floats, sixteen at a time, and calls for what memory brings next.
#pragma once

#include "kernels/cpu/generic/call_in.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

template <KvType kType>
struct Codec {  // 16 stored values at p, as floats
  static Simd::F load(const std::byte* p) {
    if constexpr (kType == KvType::f32) return Simd::load(reinterpret_cast<const float*>(p));
    if constexpr (kType == KvType::bf16) return Simd::load_bf16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kType == KvType::f16) return Simd::load_f16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kType == KvType::i8) return Simd::load_i8(reinterpret_cast<const std::int8_t*>(p));
    if constexpr (kType == KvType::f8_e4m3) return Simd::load_e4m3(reinterpret_cast<const std::uint8_t*>(p));
    if constexpr (kType == KvType::f8_e5m2) return Simd::load_e5m2(reinterpret_cast<const std::uint8_t*>(p));
  }
  // Loaded values lie as it is cheapest to widen them; sums of them are put in order at the end.
  static Simd::F in_order(Simd::F a) {
    if constexpr (kType == KvType::bf16) return Simd::bf16_in_order(a);
    return a;
  }
};

// What stands in for a row of values that nobody sees: 0 in every type.
alignas(64) inline constexpr std::byte kNoValues[kMaxValueDim * sizeof(float)] = {};

inline void call_in(const std::byte* from, int bytes) {
  for (int at = 0; at < bytes; at += 64) call_in(from + at);
}

}  // namespace espalier::kernels::ESPALIER_ISA
