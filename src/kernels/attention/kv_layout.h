// kv_layout.h: where what a layer keeps of a token lies, for kernels that read it in place.
//
// The slots are cut into segments of 512, and all layers and heads of a segment lie together: what a short context
// touches first is a few huge pages, not one per layer and head. Within a segment, of one layer and KV head, with K and
// V the widths of keys and values rounded up to 16:
//   keys    [slot / 16][K][16], for bf16 [slot / 16][K / 2][16][2]; lane = slot, so that scores need no sums
//           across lanes
//   values  [slot][V]; none where a layer keeps keys only (an index key)
// In the latent form there is one row per token, [slot][K]: the key, whose first elements are the value too.
// int8 and fp8 also have one f32 scale per token and head, for keys and for values (for a latent row one):
// [head][slot], not by segments. A sequence's positions 0, 1, ... lie in runs of consecutive slots (extents of the
// token pool), in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/types.h"

namespace espalier {

// The types in which keys and values are stored.
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

// How keys and values are kept: apart, or as one row whose first elements are the value (DeepSeek's latent vector).
enum class KvForm : std::uint8_t { keys_and_values, latent };

// Elements of a head's key and of its value. value 0: keys only. Latent: value <= key, a part of it.
struct HeadDims {
  int key, value;
  bool operator==(const HeadDims&) const = default;
};

// Consecutive slots of a sequence.
struct KvRun {
  Slot start;
  std::int32_t length;
};

// What one layer keeps, of all slots.
struct KvLayer {
  KvType type;
  std::byte* keys;    // of head 0; latent: its rows
  std::byte* values;  // of head 0; null: latent, or keys only
  float* key_scales;  // null unless has_scales(type); latent: of the rows
  float* value_scales;
  std::size_t key_head_bytes, value_head_bytes;  // of one head in a segment: from one KV head to the next
  std::size_t segment_bytes;                     // from one segment to the next, in keys and in values
  std::size_t head_scales;                       // floats from one head's scales to the next's
  KvForm form = KvForm::keys_and_values;
};

// Bytes of one head's keys (or values, or latent rows) in a segment.
constexpr std::size_t head_bytes(KvType type, int head_dim) {
  return static_cast<std::size_t>(kSegmentSlots) * static_cast<std::size_t>(padded_head(head_dim)) *
         static_cast<std::size_t>(element_bytes(type));
}

// Bytes from `keys` to where the segment of a slot begins for a head; the same of `values`.
constexpr std::size_t key_offset(const KvLayer& kv, int head, Slot slot) {
  return static_cast<std::size_t>(slot / kSegmentSlots) * kv.segment_bytes +
         static_cast<std::size_t>(head) * kv.key_head_bytes;
}
constexpr std::size_t value_offset(const KvLayer& kv, int head, Slot slot) {
  return static_cast<std::size_t>(slot / kSegmentSlots) * kv.segment_bytes +
         static_cast<std::size_t>(head) * kv.value_head_bytes;
}

}  // namespace espalier
