// kv_layout.h: where the keys and values of a token lie, for kernels that read them in place.
//
// The slots are cut into segments of 512, and all layers and heads of a segment lie together: what a short context
// touches first is a few huge pages, not one per layer and head. Within a segment, of one layer and KV head, with
// D = head_dim rounded up to 16:
//   keys    [slot / 16][D][16], for bf16 [slot / 16][D / 2][16][2]; lane = slot, so that scores need no sums
//           across lanes
//   values  [slot][D]
// int8 and fp8 also have one f32 scale per token and head, for keys and for values: [head][slot], not by segments.
// A sequence's positions 0, 1, ... lie in runs of consecutive slots (extents of the token pool), in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/types.h"

namespace espalier {

enum class KvType : std::uint8_t { f32, bf16, f16, i8, f8_e4m3, f8_e5m2 };

constexpr int element_bytes(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::bf16 || type == KvType::f16 ? 2 : 1;
}
constexpr bool has_scales(KvType type) {
  return element_bytes(type) == 1;
}

inline constexpr int kSlotGroup = 16;
inline constexpr int kSegmentSlots = 512;

constexpr int padded_head(int head_dim) {
  return (head_dim + 15) / 16 * 16;
}

struct KvRun {
  Slot start;
  std::int32_t length;
};

struct KvLayer {
  KvType type;
  std::byte* keys;  // of head 0
  std::byte* values;
  float* key_scales;  // null unless has_scales(type)
  float* value_scales;
  std::size_t head_bytes;     // from one KV head to the next, in keys and in values
  std::size_t segment_bytes;  // from one segment to the next
  std::size_t head_scales;    // floats from one head's scales to the next's
};

// Bytes from `keys` or `values` to where the segment of a slot begins for a head.
constexpr std::size_t segment_offset(const KvLayer& kv, int head, Slot slot) {
  return static_cast<std::size_t>(slot / kSegmentSlots) * kv.segment_bytes +
         static_cast<std::size_t>(head) * kv.head_bytes;
}

}  // namespace espalier
