// measured_kv.h: keys and values to measure attention with: bf16, small numbers of both signs, laid out as a pool of
// the model's is (kernels/attention/kv_layout.h). Several layers of it where one could stay in a cache.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "espalier/error.h"
#include "kernels/attention/kv_layout.h"
#include "tensor/dtype.h"
#include "tensor/page_buffer.h"

namespace espalier {

// Layers of one shape, filled.
class MeasuredKv {
 public:
  // As many layers as take more than `beyond` bytes. Fails: out_of_memory.
  static Result<MeasuredKv> allocate(int kv_heads, HeadDims dims, int slots, std::size_t beyond = 0,
                                     KvForm form = KvForm::keys_and_values) {
    const auto segments = static_cast<std::size_t>((slots + kSegmentSlots - 1) / kSegmentSlots),
               heads = static_cast<std::size_t>(kv_heads);
    const std::size_t key = head_bytes(KvType::bf16, dims.key),
                      value = form == KvForm::latent ? 0 : head_bytes(KvType::bf16, dims.value),
                      segment = heads * (key + value), layer = segments * segment, layers = beyond / layer + 1;
    MeasuredKv kv;
    ESP_TRY(kv.memory_, PageBuffer::allocate(layer * layers));
    auto* words = reinterpret_cast<std::uint16_t*>(kv.memory_.data());
    std::mt19937 rng(1);
    for (std::size_t i = 0; i < layer / 2; ++i) words[i] = static_cast<std::uint16_t>(0x3e00u | (rng() & 0x80ffu));
    for (std::size_t i = 0; i < layers; ++i) {
      std::byte* at = kv.memory_.data() + i * layer;
      if (i > 0) std::memcpy(at, kv.memory_.data(), layer);
      kv.layers_.push_back({.type = KvType::bf16,
                            .keys = at,
                            .values = value > 0 ? at + heads * key : nullptr,
                            .key_scales = nullptr,
                            .value_scales = nullptr,
                            .key_head_bytes = key,
                            .value_head_bytes = value,
                            .segment_bytes = segment,
                            .head_scales = 0,
                            .form = form});
    }
    return kv;
  }
  const KvLayer& layer(std::size_t index) const { return layers_[index % layers_.size()]; }

 private:
  PageBuffer memory_;
  std::vector<KvLayer> layers_;
};

}  // namespace espalier
