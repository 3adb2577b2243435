// plain_attention.h: attention, index scores and stored keys and values as the plainest loops in double precision, the
// judges of the fast ones in tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/kv_layout.h"
#include "tensor/dtype.h"

namespace espalier::plain {

// What becomes of a product of query and key.
struct Scoring {
  float scale = 1.0f;
  float cap = 0.0f;    // 0: none
  float slope = 0.0f;  // times the distance of the key's position from the query's
  std::span<const float> bias =
      {};                     // of the key's position less the query's, the middle for none; ends go on as they are
  std::optional<float> sink;  // a logit that joins the denominator
};

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// One query at `position` against keys [positions, q.size()] and values [positions, value_dim], of which it sees those
// that `seen` says -> [value_dim]; zeros where it sees nothing.
inline std::vector<float> attention(std::span<const float> q, std::span<const float> keys,
                                    std::span<const float> values, std::size_t value_dim, const std::vector<bool>& seen,
                                    std::int64_t position, const Scoring& how) {
  std::vector<double> score(seen.size()), out(value_dim);
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t p = 0; p < seen.size(); ++p) {
    if (!seen[p]) continue;
    const double cap = static_cast<double>(how.cap);
    score[p] = dot(q, keys.subspan(p * q.size(), q.size())) * static_cast<double>(how.scale);
    if (how.cap != 0.0f) score[p] = cap * std::tanh(score[p] / cap);
    score[p] += static_cast<double>(how.slope) * static_cast<double>(static_cast<std::int64_t>(p) - position);
    if (!how.bias.empty()) {
      const std::int64_t reach = std::ssize(how.bias) / 2;
      const std::int64_t distance = std::clamp(static_cast<std::int64_t>(p) - position, -reach, reach);
      score[p] += static_cast<double>(how.bias[static_cast<std::size_t>(distance + reach)]);
    }
    top = std::max(top, score[p]);
  }
  std::vector<float> result(value_dim);
  if (!std::isfinite(top)) return result;
  if (how.sink) {
    top = std::max(top, static_cast<double>(*how.sink));
    total = std::exp(static_cast<double>(*how.sink) - top);
  }
  for (std::size_t p = 0; p < seen.size(); ++p) {
    if (!seen[p]) continue;
    const double weight = std::exp(score[p] - top);
    total += weight;
    for (std::size_t i = 0; i < value_dim; ++i) out[i] += weight * static_cast<double>(values[p * value_dim + i]);
  }
  for (std::size_t i = 0; i < value_dim; ++i) result[i] = static_cast<float>(out[i] / total);
  return result;
}

// Index queries [heads, dim] of one row against keys [positions, dim] -> [positions].
inline std::vector<double> index_scores(std::span<const float> q, std::span<const float> weights,
                                        std::span<const float> keys, std::size_t dim, float scale) {
  std::vector<double> scores(keys.size() / dim);
  for (std::size_t p = 0; p < scores.size(); ++p)
    for (std::size_t h = 0; h < weights.size(); ++h)
      scores[p] += static_cast<double>(weights[h]) *
                   std::max(0.0, dot(q.subspan(h * dim, dim), keys.subspan(p * dim, dim)) * static_cast<double>(scale));
  return scores;
}

// The number that element `at` of stored keys or values stands for, without its scale.
inline float stored(KvType type, const std::byte* base, std::size_t at) {
  const std::byte* p = base + at * static_cast<std::size_t>(element_bytes(type));
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (type) {
    case KvType::f32:
      return as(0.0f);
    case KvType::bf16:
      return to_float(as(bf16{}));
    case KvType::f16:
      return to_float(as(f16{}));
    case KvType::i8:
      return static_cast<float>(as(std::int8_t{}));
    case KvType::f8_e4m3:
      return f8_e4m3_to_float(as(std::uint8_t{}));
    case KvType::f8_e5m2:
      return f8_e5m2_to_float(as(std::uint8_t{}));
  }
  return 0;
}

// What a slot holds of one head, read by the layout that kv_layout.h states.
struct StoredHead {
  std::vector<float> key, value;  // [dims.key], [dims.value]
};

inline std::vector<float> stored_key(const KvLayer& kv, int head, Slot slot, int key_dim) {
  const auto padded = static_cast<std::size_t>(padded_head(key_dim)), s = static_cast<std::size_t>(slot);
  const std::size_t at = s % kSegmentSlots, group = at / kSlotGroup, lane = at % kSlotGroup;
  std::vector<float> key;
  for (std::size_t d = 0; d < static_cast<std::size_t>(key_dim); ++d) {
    const std::size_t in_pairs = ((group * padded + d / 2 * 2) * kSlotGroup) + lane * 2 + d % 2;
    const std::size_t in_lanes = (group * padded + d) * kSlotGroup + lane;
    const std::size_t element = kv.form == KvForm::latent ? at * padded + d
                                : kv.type == KvType::bf16 ? in_pairs
                                                          : in_lanes;
    key.push_back(stored(kv.type, kv.keys + key_offset(kv, head, slot), element));
    if (has_scales(kv.type)) key.back() *= kv.key_scales[static_cast<std::size_t>(head) * kv.head_scales + s];
  }
  return key;
}
inline StoredHead stored_head(const KvLayer& kv, int head, Slot slot, HeadDims dims) {
  StoredHead out{stored_key(kv, head, slot, dims.key), {}};
  if (kv.form == KvForm::latent) {
    out.value.assign(out.key.begin(), out.key.begin() + dims.value);
    return out;
  }
  const auto padded = static_cast<std::size_t>(padded_head(dims.value)), s = static_cast<std::size_t>(slot);
  for (std::size_t d = 0; d < static_cast<std::size_t>(dims.value); ++d) {
    out.value.push_back(stored(kv.type, kv.values + value_offset(kv, head, slot), s % kSegmentSlots * padded + d));
    if (has_scales(kv.type)) out.value.back() *= kv.value_scales[static_cast<std::size_t>(head) * kv.head_scales + s];
  }
  return out;
}

}  // namespace espalier::plain
