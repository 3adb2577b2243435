// kv_pool.h: the memory behind the token pool: keys and values of every slot, layer by layer.
//
// Reserved at start; its pages come as slots are first used, or before (touch_ahead.h). Layout: kernels/kv_layout.h.
// Fails: out_of_memory naming the size and the flag that changes it.
#pragma once

#include <vector>

#include "model/batch.h"
#include "model/decoder_spec.h"
#include "tensor/page_buffer.h"

namespace espalier {

struct KvShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  KvType type = KvType::f32;
  static KvShape of(const DecoderSpec& spec, KvType type) {
    return {spec.layers, spec.attention.kv_heads, spec.attention.head_dim, type};
  }
  std::size_t bytes_per_token() const;  // all layers, scales included
};

class KvPool {
 public:
  static Result<KvPool> allocate(const KvShape& shape, int slots);
  const KvShape& shape() const { return shape_; }
  KvView view() const { return {layers_}; }
  std::size_t bytes() const { return data_.size() + scales_.size(); }
  std::byte* data() const { return data_.data(); }  // keys and values, segment after segment
  std::size_t data_bytes() const { return data_.size(); }
  std::size_t bytes_of(int slots) const;  // of data(), that the first `slots` slots take; whole segments

 private:
  KvShape shape_;
  PageBuffer data_, scales_;
  std::vector<KvLayer> layers_;
};

}  // namespace espalier
