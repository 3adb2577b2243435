// store_row.h: a row's keys and values into its slot, rounded to what the layer stores (kernels/attention/kv_layout.h).
//
// A sixteen of threads takes a head; what fills a head up to a multiple of sixteen is zero. Threads: those of one block.
#pragma once

#include "kernels/cuda/simt/simd.h"
// (behind it)
#include "kernels/cpu/generic/kv_rounding.h"
#include "model/keeps.h"

namespace espalier::device {

ESPALIER_ON_DEVICE inline void store_element(KvType type, std::byte* base, std::size_t at, float x) {
  switch (type) {
    case KvType::f32:
      reinterpret_cast<float*>(base)[at] = x;
      break;
    case KvType::bf16:
      reinterpret_cast<std::uint16_t*>(base)[at] = kernels::simt::float_to_bf16(x);
      break;
    case KvType::f16:
      reinterpret_cast<std::uint16_t*>(base)[at] = kernels::simt::float_to_half(x);
      break;
    case KvType::i8:
      reinterpret_cast<std::int8_t*>(base)[at] = static_cast<std::int8_t>(rintf(x));
      break;
    case KvType::f8_e4m3:
      reinterpret_cast<std::uint8_t*>(base)[at] = kernels::simt::float_to_f8(x, 3, kernels::simt::largest_of(type));
      break;
    case KvType::f8_e5m2:
      reinterpret_cast<std::uint8_t*>(base)[at] = kernels::simt::float_to_f8(x, 2, kernels::simt::largest_of(type));
      break;
  }
}

// Stores x[0 .. dim), element d at place(d); returns the scale.
template <class Place>
ESPALIER_ON_DEVICE float store_head(KvType type, const float* x, int dim, std::byte* base, Place place) {
  using kernels::simt::Simd;
  float scale = 1.0f, factor = 1.0f;
  if (has_scales(type)) {
    float top = 0.0f;
    for (int d = 0; d < dim; d += 16) top = Simd::max(top, Simd::abs(Simd::load_n(x + d, dim - d)));
    const float most = Simd::reduce_max(top), largest = kernels::simt::largest_of(type);
    scale = most / largest;
    factor = most > 0.0f ? largest / most : 0.0f;
  }
  for (int d = Simd::lane(); d < padded_head(dim); d += 16) {
    const float value = d < dim ? x[d] : 0.0f;
    store_element(type, base, static_cast<std::size_t>(place(d)), has_scales(type) ? value * factor : value);
  }
  return scale;
}

ESPALIER_ON_DEVICE inline void store_row(const TokenField& field, const KvLayer& kv, Slot slot, const float* keys,
                                         const float* values) {
  const int in_segment = slot % kSegmentSlots, lane = slot % kSlotGroup, group = in_segment / kSlotGroup;
  const int key_width = padded_head(field.key_dim), value_width = padded_head(field.value_dim);
  for (int h = kernels::simt::row_part(); h < field.heads; h += kernels::simt::row_parts()) {
    const std::size_t scale_at = static_cast<std::size_t>(h) * kv.head_scales + static_cast<std::size_t>(slot);
    const bool latent = kv.form == KvForm::latent, pairs = kv.type == KvType::bf16;
    const float key_scale =
        store_head(kv.type, keys + h * field.key_dim, field.key_dim, kv.keys + key_offset(kv, h, slot), [&](int d) {
          if (latent) return in_segment * key_width + d;
          if (pairs) return group * key_width * kSlotGroup + (d / 2 * kSlotGroup + lane) * 2 + d % 2;
          return group * key_width * kSlotGroup + d * kSlotGroup + lane;
        });
    if (has_scales(kv.type) && kernels::simt::stores_for_all()) kv.key_scales[scale_at] = key_scale;
    if (values == nullptr) continue;
    const float value_scale =
        store_head(kv.type, values + h * field.value_dim, field.value_dim, kv.values + value_offset(kv, h, slot),
                   [&](int d) { return in_segment * value_width + d; });
    if (has_scales(kv.type) && kernels::simt::stores_for_all()) kv.value_scales[scale_at] = value_scale;
  }
}

}  // namespace espalier::device
