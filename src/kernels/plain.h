// plain.h: every operation as the plainest loop in double precision, the judge of the fast ones in tests and benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace espalier::plain {

// x [rows, k], w [outputs, k] -> [rows, outputs]
inline std::vector<float> matmul(std::span<const float> x, std::span<const float> w, std::int64_t rows, std::int64_t outputs,
                                 std::int64_t k) {
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
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = static_cast<float>(static_cast<double>(x[i]) * factor * static_cast<double>(gain[i]));
  return out;
}

// One query against keys and values [positions, head_dim] (position p of the query sees first..last) -> [head_dim]
inline std::vector<float> attention(std::span<const float> q, std::span<const float> keys, std::span<const float> values,
                                    std::int64_t first, std::int64_t last, float scale) {
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

}  // namespace espalier::plain
