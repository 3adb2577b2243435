#include "engine/memory/kv_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

std::size_t segments_of(int slots) {
  return (static_cast<std::size_t>(slots) + kSegmentSlots - 1) / kSegmentSlots;
}

bool has_values(const TokenField& field) {
  return !field.latent && field.value_dim > 0;
}

}  // namespace

std::size_t CacheLayout::key_bytes(const TokenField& field, KvType type) {
  return static_cast<std::size_t>(field.heads) * static_cast<std::size_t>(padded_head(field.key_dim)) *
         static_cast<std::size_t>(element_bytes(type));
}

std::size_t CacheLayout::value_bytes(const TokenField& field, KvType type) {
  if (!has_values(field)) return 0;
  return static_cast<std::size_t>(field.heads) * static_cast<std::size_t>(padded_head(field.value_dim)) *
         static_cast<std::size_t>(element_bytes(type));
}

std::size_t CacheLayout::scale_bytes(const TokenField& field, KvType type) {
  if (!has_scales(type)) return 0;
  return static_cast<std::size_t>(field.heads) * (has_values(field) ? 2 : 1) * sizeof(float);
}

std::size_t CacheLayout::bytes_per_token() const {
  std::size_t sum = 0;
  for (const TokenField& field : fields)
    sum += key_bytes(field, type) + value_bytes(field, type) + scale_bytes(field, type);
  return sum;
}

std::size_t KvPool::bytes_of(int slots) const {
  return layers_.empty() ? 0 : std::min(segments_of(slots) * layers_.front().segment_bytes, data_.size());
}

Result<KvPool> KvPool::allocate(const CacheLayout& layout, int slots, const device::Device* device) {
  const std::size_t segments = segments_of(slots), slots_held = segments * kSegmentSlots;
  std::size_t segment = 0, scales = 0;
  for (const TokenField& field : layout.fields) {
    segment +=
        kSegmentSlots * (CacheLayout::key_bytes(field, layout.type) + CacheLayout::value_bytes(field, layout.type));
    scales += slots_held * CacheLayout::scale_bytes(field, layout.type);
  }
  auto short_of_memory = [&](Error error) {
    error.message =
        fmt::format("keys and values of {} tokens need {:.1f} MiB: {}; a smaller --max-total-tokens would fit", slots,
                    static_cast<double>(segments * segment) / 0x1p20, error.message);
    error.field = "max_total_tokens";
    return error;
  };
  KvPool pool;
  pool.layout_ = layout;
  pool.device_ = device;
  auto data = PoolMemory::allocate(segments * segment, device);
  if (!data.ok()) return short_of_memory(data.error());
  pool.data_ = std::move(data).value();
  auto scale_memory = PoolMemory::allocate(scales, device, PageBuffer::Pages::small);
  if (!scale_memory.ok()) return short_of_memory(scale_memory.error());
  pool.scales_ = std::move(scale_memory).value();

  std::byte* next = pool.data_.data();
  auto* scale = reinterpret_cast<float*>(pool.scales_.data());
  for (const TokenField& field : layout.fields) {
    KvLayer view{};
    view.type = layout.type;
    view.form = field.latent ? KvForm::latent : KvForm::keys_and_values;
    view.segment_bytes = segment;
    view.key_head_bytes = head_bytes(layout.type, field.key_dim);
    view.value_head_bytes = has_values(field) ? head_bytes(layout.type, field.value_dim) : 0;
    const auto heads = static_cast<std::size_t>(field.heads);
    view.keys = next;
    next += heads * view.key_head_bytes;
    if (has_values(field)) view.values = next;
    next += heads * view.value_head_bytes;
    if (has_scales(layout.type)) {
      view.head_scales = slots_held;
      view.key_scales = scale;
      scale += heads * slots_held;
      if (has_values(field)) view.value_scales = scale;
      if (has_values(field)) scale += heads * slots_held;
    }
    pool.layers_.push_back(view);
  }
  return pool;
}

Result<KvPools> KvPools::allocate(const CacheLayout& layout, int slots, const std::vector<bool>& in_window,
                                  int window_slots, const device::Device* device) {
  KvPools pools;
  CacheLayout parts[2] = {{{}, layout.type}, {{}, layout.type}};
  const auto is_in_window = [&](std::size_t field) { return window_slots > 0 && in_window[field]; };
  for (std::size_t i = 0; i < layout.fields.size(); ++i)
    parts[is_in_window(i) ? 1 : 0].fields.push_back(layout.fields[i]);
  ESP_TRY(pools.tokens_, KvPool::allocate(parts[0], slots, device));
  if (window_slots > 0) {
    ESP_TRY(pools.windows_, KvPool::allocate(parts[1], window_slots, device));
  }
  std::size_t next[2] = {0, 0};
  for (std::size_t i = 0; i < layout.fields.size(); ++i) {
    const bool apart = is_in_window(i);
    pools.layers_.push_back((apart ? pools.windows_ : pools.tokens_).view().layers[next[apart ? 1 : 0]++]);
    if (window_slots > 0) pools.in_windows_.push_back(apart ? 1 : 0);
  }
  return pools;
}

}  // namespace espalier
