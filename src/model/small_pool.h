// small_pool.h: a small model's shape, keys and values of one sequence, and its logits; for tests of decoders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "model/decoder.h"

namespace espalier::testing {

// Two layers; fill in what a test is about.
inline DecoderSpec small_spec(int vocabulary) {
  DecoderSpec spec;
  spec.vocabulary = vocabulary;
  spec.hidden = 64;
  spec.layers = 2;
  spec.attention.heads = spec.attention.kv_heads = 2;
  spec.attention.head_dim = 32;
  spec.attention.scale = 0.2f;
  spec.attention.rope.dims = 32;
  spec.attention.rope.inverse_frequency.assign(16, 0.1f);
  spec.mlp.inner = 128;
  spec.windows = {0, 0};
  return spec;
}

// Keys and values of one sequence, slots in order.
struct SmallPool {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KvLayer> layers;
  SmallPool(const DecoderSpec& spec, KvType type, int slots) {
    const std::size_t head = head_bytes(type, spec.attention.head_dim);
    const std::size_t segment = head * static_cast<std::size_t>(spec.attention.kv_heads);
    const auto segments = static_cast<std::size_t>((slots + kSegmentSlots - 1) / kSegmentSlots);
    for (int i = 0; i < spec.layers; ++i) {
      auto& keys = memory.emplace_back(segment * segments);
      auto* key_bytes = keys.data();
      auto& values = memory.emplace_back(keys.size());
      layers.push_back({type, key_bytes, values.data(), nullptr, nullptr, head, head, segment, 0});
    }
  }
};

// Runs one sequence in chunks and gives the logits of every position.
inline std::vector<float> all_logits(Decoder& decoder, const SmallPool& pool, std::span<const TokenId> tokens,
                                     int chunk, int from = 0) {
  std::vector<float> out;
  for (int at = from; at < static_cast<int>(tokens.size()); at += chunk) {
    const int count = std::min(chunk, static_cast<int>(tokens.size()) - at);
    std::vector<Slot> slots;
    std::vector<int> rows;
    for (int i = 0; i < count; ++i) {
      slots.push_back(at + i);
      rows.push_back(i);
    }
    const KvRun run{0, at + count};
    const BatchSequence sequence{0, count, at, {&run, 1}};
    const auto logits = decoder.forward(
        {tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), slots, {&sequence, 1}, rows},
        {pool.layers});
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

}  // namespace espalier::testing
