// plain.h: every operation as the plainest loop in double precision, the judge of the fast ones in tests and
// benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace espalier::plain
