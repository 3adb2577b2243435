// small_pool.h: a small model's shape, what it keeps of one sequence, and its logits; for tests of decoders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"
#include "model/decoder.h"

namespace espalier::testing {

// The switches of a two-layer Llama; fill in what a test is about.
struct SmallSpec {
  int vocabulary, heads = 2, kv_heads = 2;
  std::vector<std::int64_t> windows = {0, 0};
  bool tied_head = false;

  ModelSpec make() const {
    ModelSpec spec;
    spec.vocabulary = vocabulary;
    spec.hidden = 64;
    spec.tied_head = tied_head;
    spec.norm.eps = 1e-5f;
    Attention attention;
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = 32;
    attention.scale = 0.2f;
    attention.rope = RopeSpec{.inverse_frequency = std::vector<float>(16, 0.1f)};
    const Mlp mlp{.inner = 128};
    for (const std::int64_t window : windows) {
      attention.visibility = Visibility::window(window);
      spec.layers.push_back({{{attention, "attn_norm"}, {mlp, "ffn_norm"}}});
    }
    return spec;
  }
};

// What is kept of one sequence, slots in order.
struct SmallPool {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KvLayer> layers;
  std::vector<float> state;
  float* state_elsewhere = nullptr;  // on a device that computes; null: here

  float* state_floats() { return state_elsewhere != nullptr ? state_elsewhere : state.data(); }

  SmallPool(const Keeps& keeps, KvType type, int slots) : state(keeps.state_floats) {
    const auto segments = static_cast<std::size_t>((slots + kSegmentSlots - 1) / kSegmentSlots);
    for (const TokenField& field : keeps.per_token) {
      const std::size_t key = head_bytes(type, field.key_dim),
                        value = field.latent ? 0 : head_bytes(type, field.value_dim);
      const std::size_t segment = std::max(key, value) * static_cast<std::size_t>(field.heads);
      auto& keys = memory.emplace_back(segment * segments);
      auto* key_bytes = keys.data();
      auto& values = memory.emplace_back(value > 0 ? segment * segments : 0);
      KvLayer layer{type, key_bytes, value > 0 ? values.data() : nullptr, nullptr, nullptr, key, value, segment, 0};
      if (field.latent) layer.form = KvForm::latent;
      layers.push_back(layer);
    }
  }
};

// Runs one sequence in chunks (a model that sees both ways takes it whole) and gives the logits, or the rows, of every
// position.
inline std::vector<float> all_logits(Decoder& decoder, SmallPool& pool, std::span<const TokenId> tokens, int chunk,
                                     int from = 0, const LoraAdapter* adapter = nullptr) {
  std::vector<float> out;
  if (decoder.sees_both_ways()) chunk = static_cast<int>(tokens.size());
  for (int at = from; at < static_cast<int>(tokens.size()); at += chunk) {
    const int count = std::min(chunk, static_cast<int>(tokens.size()) - at);
    std::vector<Slot> slots;
    std::vector<int> rows;
    for (int i = 0; i < count; ++i) {
      slots.push_back(at + i);
      rows.push_back(i);
    }
    const KvRun run{0, at + count};
    BatchSequence sequence{0, count, at, {&run, 1}};
    if (!pool.state.empty()) {
      sequence.state_in = at > 0 ? pool.state_floats() : nullptr;
      sequence.state_out = pool.state_floats();
    }
    sequence.rope_length = static_cast<std::int64_t>(tokens.size());
    sequence.adapter = adapter;
    const std::vector<std::int32_t> first(static_cast<std::size_t>(count), 0),
        last(static_cast<std::size_t>(count), static_cast<std::int32_t>(tokens.size()) - 1);
    if (decoder.sees_both_ways()) {
      sequence.span_first = first;
      sequence.span_last = last;
    }
    const auto logits = decoder.forward(
        {tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), slots, {&sequence, 1}, rows},
        {pool.layers});
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

}  // namespace espalier::testing
