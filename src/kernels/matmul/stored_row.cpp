#include "kernels/matmul/stored_row.h"

#include "tensor/decode.h"

namespace espalier {
namespace {

DType number_of(KvType type) {
  switch (type) {
    case KvType::f32:
      return DType::f32;
    case KvType::bf16:
      return DType::bf16;
    case KvType::f16:
      return DType::f16;
    case KvType::i8:
      return DType::i8;
    case KvType::f8_e4m3:
      return DType::f8_e4m3;
    case KvType::f8_e5m2:
      return DType::f8_e5m2;
  }
  return DType::f32;
}

}  // namespace

void load_row(const KvLayer& kv, int head, Slot slot, std::span<float> row) {
  const auto width = static_cast<int>(row.size());
  const std::size_t bytes =
      static_cast<std::size_t>(padded_head(width)) * static_cast<std::size_t>(element_bytes(kv.type));
  const std::byte* stored =
      kv.keys + key_offset(kv, head, slot) + static_cast<std::size_t>(slot % kSegmentSlots) * bytes;
  decode_row(number_of(kv.type), {stored, bytes}, row);
  if (!has_scales(kv.type)) return;
  const float scale = kv.key_scales[static_cast<std::size_t>(head) * kv.head_scales + static_cast<std::size_t>(slot)];
  for (float& value : row) value *= scale;
}

}  // namespace espalier
