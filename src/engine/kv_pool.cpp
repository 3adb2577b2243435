#include "engine/kv_pool.h"

#include <fmt/format.h>

namespace espalier {

std::size_t KvShape::bytes_per_token() const {
  const std::size_t head =
      static_cast<std::size_t>(padded_head(head_dim)) * element_bytes(type) + (has_scales(type) ? sizeof(float) : 0);
  return 2 * head * static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(layers);
}

Result<KvPool> KvPool::allocate(const KvShape& shape, int slots) {
  const std::size_t rounded = (static_cast<std::size_t>(slots) + kSlotGroup - 1) / kSlotGroup * kSlotGroup;
  const std::size_t head = rounded * static_cast<std::size_t>(padded_head(shape.head_dim)) * element_bytes(shape.type);
  const std::size_t layer = head * static_cast<std::size_t>(shape.kv_heads);
  const std::size_t layer_scales = has_scales(shape.type) ? rounded * static_cast<std::size_t>(shape.kv_heads) : 0;
  const auto layers = static_cast<std::size_t>(shape.layers);

  auto short_of_memory = [&](Error error) {
    error.message =
        fmt::format("keys and values of {} tokens need {:.1f} MiB: {}; a smaller --max-total-tokens would fit", slots,
                    static_cast<double>(2 * layers * layer) / 0x1p20, error.message);
    error.field = "max_total_tokens";
    return error;
  };
  KvPool pool;
  auto data = PageBuffer::allocate(2 * layers * layer);
  if (!data.ok()) return short_of_memory(data.error());
  pool.data_ = std::move(data).value();
  auto scales = PageBuffer::allocate(2 * layers * layer_scales * sizeof(float));
  if (!scales.ok()) return short_of_memory(scales.error());
  pool.scales_ = std::move(scales).value();

  auto* scale = reinterpret_cast<float*>(pool.scales_.data());
  for (std::size_t i = 0; i < layers; ++i) {
    KvLayer view{};
    view.type = shape.type;
    view.keys = pool.data_.data() + 2 * i * layer;
    view.values = view.keys + layer;
    if (layer_scales > 0) {
      view.key_scales = scale + 2 * i * layer_scales;
      view.value_scales = view.key_scales + layer_scales;
    }
    view.head_bytes = head;
    view.head_scales = rounded;
    pool.layers_.push_back(view);
  }
  return pool;
}

}  // namespace espalier
