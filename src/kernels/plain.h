// plain.h: every operation as the plainest loop in double precision, the judge of the fast ones in tests and
// benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/kv_layout.h"
#include "tensor/dtype.h"

namespace espalier::plain {

// x [rows, k], w [outputs, k] -> [rows, outputs]
inline std::vector<float> matmul(std::span<const float> x, std::span<const float> w, std::int64_t rows,
                                 std::int64_t outputs, std::int64_t k) {
  std::vector<float> out(static_cast<std::size_t>(rows * outputs));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t n = 0; n < outputs; ++n) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[r * k + i]) * static_cast<double>(w[n * k + i]);
      out[static_cast<std::size_t>(r * outputs + n)] = static_cast<float>(sum);
    }
  return out;
}

inline std::vector<float> rms_norm(std::span<const float> x, std::span<const float> gain, float eps) {
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(eps));
  std::vector<float> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = static_cast<float>(static_cast<double>(x[i]) * factor * static_cast<double>(gain[i]));
  return out;
}

// One query against keys and values [positions, head_dim] (position p of the query sees first..last) -> [head_dim]
inline std::vector<float> attention(std::span<const float> q, std::span<const float> keys,
                                    std::span<const float> values, std::int64_t first, std::int64_t last, float scale) {
  const auto d = static_cast<std::int64_t>(q.size());
  std::vector<double> score(static_cast<std::size_t>(last + 1));
  double top = -INFINITY, total = 0;
  for (std::int64_t p = first; p <= last; ++p) {
    double sum = 0;
    for (std::int64_t i = 0; i < d; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(keys[p * d + i]);
    score[p] = sum * static_cast<double>(scale);
    top = std::max(top, score[p]);
  }
  std::vector<double> out(q.size());
  for (std::int64_t p = first; p <= last; ++p) {
    const double weight = std::exp(score[p] - top);
    total += weight;
    for (std::int64_t i = 0; i < d; ++i) out[i] += weight * static_cast<double>(values[p * d + i]);
  }
  std::vector<float> result(q.size());
  for (std::int64_t i = 0; i < d; ++i) result[i] = static_cast<float>(out[i] / total);
  return result;
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
  std::vector<float> key, value;  // [head_dim]
};
inline StoredHead stored_head(const KvLayer& kv, int head, Slot slot, int head_dim) {
  const auto padded = static_cast<std::size_t>(padded_head(head_dim)), s = static_cast<std::size_t>(slot);
  const std::size_t from = segment_offset(kv, head, slot), at = s % kSegmentSlots, group = at / kSlotGroup,
                    lane = at % kSlotGroup, scale = static_cast<std::size_t>(head) * kv.head_scales + s;
  StoredHead out;
  for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim); ++d) {
    const std::size_t in_pairs = ((group * padded + d / 2 * 2) * kSlotGroup) + lane * 2 + d % 2;
    const std::size_t in_lanes = (group * padded + d) * kSlotGroup + lane;
    out.key.push_back(stored(kv.type, kv.keys + from, kv.type == KvType::bf16 ? in_pairs : in_lanes));
    out.value.push_back(stored(kv.type, kv.values + from, at * padded + d));
    if (!has_scales(kv.type)) continue;
    out.key.back() *= kv.key_scales[scale];
    out.value.back() *= kv.value_scales[scale];
  }
  return out;
}

}  // namespace espalier::plain
