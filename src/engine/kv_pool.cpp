#include "engine/kv_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

std::size_t segments_of(int slots) {
  return (static_cast<std::size_t>(slots) + kSegmentSlots - 1) / kSegmentSlots;
}

}  // namespace

std::size_t KvShape::bytes_per_token() const {
  const std::size_t head =
      static_cast<std::size_t>(padded_head(head_dim)) * element_bytes(type) + (has_scales(type) ? sizeof(float) : 0);
  return 2 * head * static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(layers);
}

std::size_t KvPool::bytes_of(int slots) const {
  return layers_.empty() ? 0 : std::min(segments_of(slots) * layers_.front().segment_bytes, data_.size());
}

Result<KvPool> KvPool::allocate(const KvShape& shape, int slots) {
  const auto layers = static_cast<std::size_t>(shape.layers), heads = static_cast<std::size_t>(shape.kv_heads);
  const std::size_t segments = segments_of(slots);
  const std::size_t head = head_bytes(shape.type, shape.head_dim);
  const std::size_t segment = 2 * layers * heads * head;
  const std::size_t scales_per_head = has_scales(shape.type) ? segments * kSegmentSlots : 0;

  auto short_of_memory = [&](Error error) {
    error.message =
        fmt::format("keys and values of {} tokens need {:.1f} MiB: {}; a smaller --max-total-tokens would fit", slots,
                    static_cast<double>(segments * segment) / 0x1p20, error.message);
    error.field = "max_total_tokens";
    return error;
  };
  KvPool pool;
  pool.shape_ = shape;
  auto data = PageBuffer::allocate(segments * segment);
  if (!data.ok()) return short_of_memory(data.error());
  pool.data_ = std::move(data).value();
  auto scales = PageBuffer::allocate(2 * layers * heads * scales_per_head * sizeof(float), PageBuffer::Pages::small);
  if (!scales.ok()) return short_of_memory(scales.error());
  pool.scales_ = std::move(scales).value();

  auto* scale = reinterpret_cast<float*>(pool.scales_.data());
  for (std::size_t i = 0; i < layers; ++i) {
    KvLayer view{};
    view.type = shape.type;
    view.keys = pool.data_.data() + 2 * i * heads * head;
    view.values = view.keys + heads * head;
    if (scales_per_head > 0) {
      view.key_scales = scale + 2 * i * heads * scales_per_head;
      view.value_scales = view.key_scales + heads * scales_per_head;
    }
    view.key_head_bytes = view.value_head_bytes = head;
    view.segment_bytes = segment;
    view.head_scales = scales_per_head;
    pool.layers_.push_back(view);
  }
  return pool;
}

}  // namespace espalier
