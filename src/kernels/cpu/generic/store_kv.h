// store_kv.h: one token's key and value of a KV head, rounded to what the layer stores, put where they belong.
#pragma once

#include "kernels/cpu/generic/kv_rounding.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// Writes one token's vector as the pool's type: `wide` holds the padded floats; returns its scale (1 when unscaled).
inline float encode_kv(KvType type, float* wide, int padded, std::byte* out) {
  float scale = 1.0f;
  if (has_scales(type)) {
    Simd::F top = Simd::zero();
    for (int d = 0; d < padded; d += 16) top = Simd::max(top, Simd::abs(Simd::load(wide + d)));
    const float largest = largest_of(type);
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
        for (int i = d; i < d + 16; ++i) out[i] = static_cast<std::byte>(float_to_f8(wide[i], 3, largest_of(type)));
        break;
      case KvType::f8_e5m2:
        for (int i = d; i < d + 16; ++i) out[i] = static_cast<std::byte>(float_to_f8(wide[i], 2, largest_of(type)));
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
