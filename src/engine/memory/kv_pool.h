// kv_pool.h: the memory behind the token pool: what the model keeps of every slot, layer by layer.
//
// Reserved at start; its pages come as slots are first used, or before (page_prefault.h). Layout: kernels/attention/kv_layout.h.
// Fails: out_of_memory naming the size and the flag that changes it.
#pragma once

#include <vector>

#include "engine/memory/pool_memory.h"
#include "model/batch.h"
#include "model/keeps.h"

namespace espalier {

// What is kept of every token, and in which type.
struct CacheLayout {
  std::vector<TokenField> fields;
  KvType type = KvType::f32;

  static std::size_t key_bytes(const TokenField& field, KvType type);    // of one token, all heads, without scales
  static std::size_t value_bytes(const TokenField& field, KvType type);  // 0: the key is the value, or there is none
  static std::size_t scale_bytes(const TokenField& field, KvType type);  // of one token
  std::size_t bytes_per_token() const;                                   // all fields, scales included
};

// Keys and values of so many slots.
class KvPool {
 public:
  // device: whose memory it is; null: the host's.
  static Result<KvPool> allocate(const CacheLayout& layout, int slots, const device::Device* device = nullptr);
  const CacheLayout& layout() const { return layout_; }
  KvView view() const { return {layers_}; }
  std::size_t bytes() const { return data_.size() + scales_.size(); }
  std::byte* data() const { return data_.data(); }  // keys and values, segment after segment
  std::size_t data_bytes() const { return data_.size(); }
  const device::Device* device() const { return device_; }
  std::size_t bytes_of(int slots) const;  // of data(), that the first `slots` slots take; whole segments

 private:
  CacheLayout layout_;
  PoolMemory data_, scales_;
  const device::Device* device_ = nullptr;
  std::vector<KvLayer> layers_;
};

// The pools of a model: what lies in the slots of its tokens, and what lies in window slots, if anything does.
class KvPools {
 public:
  // `in_window`: of each field, whether it lies in one of the `window_slots`; empty: none does.
  static Result<KvPools> allocate(const CacheLayout& layout, int slots, const std::vector<bool>& in_window = {},
                                  int window_slots = 0, const device::Device* device = nullptr);
  KvPool& tokens() { return tokens_; }
  const KvPool& tokens() const { return tokens_; }
  const KvPool& windows() const { return windows_; }
  KvView view() const { return {layers_, in_windows_}; }  // of all fields, in their order
  std::size_t bytes() const { return tokens_.bytes() + windows_.bytes(); }

 private:
  KvPool tokens_, windows_;
  std::vector<KvLayer> layers_;
  std::vector<unsigned char> in_windows_;  // [layers_]; empty: none is
};

}  // namespace espalier
