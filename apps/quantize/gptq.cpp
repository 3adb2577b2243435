#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace espalier::quantizer {
namespace {

constexpr std::int64_t kBlock = 64;

// Lanes first, so that every compiler gives the same bits, and folds at the end.
float dot(const float* a, const float* b, std::int64_t count) {
  constexpr int kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[k + lane] * b[k + lane];
  for (int lane = 0; k < count; ++k, ++lane) sums[lane] += a[k] * b[k];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

// a = l l^T in the lower triangle, block by block. False: not positive.
bool factor(std::vector<float>& a, std::int64_t n, ComputeTeam& team) {
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t end = std::min(n, first + kBlock);
    for (std::int64_t i = first; i < end; ++i)
      for (std::int64_t j = first; j <= i; ++j) {
        const float rest =
            a[static_cast<std::size_t>(i * n + j)] -
            dot(&a[static_cast<std::size_t>(i * n + first)], &a[static_cast<std::size_t>(j * n + first)], j - first);
        if (i == j && !(rest > 0)) return false;
        a[static_cast<std::size_t>(i * n + j)] =
            i == j ? std::sqrt(rest) : rest / a[static_cast<std::size_t>(j * n + j)];
      }
    constexpr std::int64_t kRows = 32;
    const auto chunks = [&] { return static_cast<int>((n - end + kRows - 1) / kRows); };
    team.run(chunks(), [&](int chunk) {
      for (std::int64_t i = end + chunk * kRows; i < std::min(n, end + (chunk + 1) * kRows); ++i)
        for (std::int64_t j = first; j < end; ++j) {
          float& at = a[static_cast<std::size_t>(i * n + j)];
          at = (at - dot(&a[static_cast<std::size_t>(i * n + first)], &a[static_cast<std::size_t>(j * n + first)],
                         j - first)) /
               a[static_cast<std::size_t>(j * n + j)];
        }
    });
    team.run(chunks(), [&](int chunk) {
      for (std::int64_t i = end + chunk * kRows; i < std::min(n, end + (chunk + 1) * kRows); ++i)
        for (std::int64_t j = end; j <= i; ++j)
          a[static_cast<std::size_t>(i * n + j)] -= dot(&a[static_cast<std::size_t>(i * n + first)],
                                                        &a[static_cast<std::size_t>(j * n + first)], end - first);
    });
  }
  return true;
}

// The inverse of an upper triangle, columns in chunks.
std::vector<float> inverse(const std::vector<float>& upper, std::int64_t n, ComputeTeam& team) {
  std::vector<float> out(upper.size(), 0.0f);
  team.run(static_cast<int>((n + kBlock - 1) / kBlock), [&](int chunk) {
    const std::int64_t first = chunk * kBlock, end = std::min(n, first + kBlock);
    for (std::int64_t i = end - 1; i >= 0; --i) {
      float row[kBlock] = {};
      for (std::int64_t c = std::max(i, first); c < end; ++c) row[c - first] = c == i ? 1.0f : 0.0f;
      for (std::int64_t k = i + 1; k < end; ++k) {
        const float by = upper[static_cast<std::size_t>(i * n + k)];
        const float* from = &out[static_cast<std::size_t>(k * n + first)];
        for (std::int64_t c = 0; c < end - first; ++c) row[c] -= by * from[c];
      }
      const float own = upper[static_cast<std::size_t>(i * n + i)];
      for (std::int64_t c = 0; c < end - first; ++c) out[static_cast<std::size_t>(i * n + first + c)] = row[c] / own;
    }
  });
  return out;
}

}  // namespace

Gptq::Gptq(std::vector<float> products, std::int64_t width, std::span<const float> scales, ComputeTeam& team)
    : width_(width), order_(static_cast<std::size_t>(width)) {
  const auto at = [&](std::int64_t i, std::int64_t j) {
    const float by = scales.empty() ? 1.0f : scales[static_cast<std::size_t>(i)] * scales[static_cast<std::size_t>(j)];
    return products[static_cast<std::size_t>(i * width + j)] * by;
  };
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, [&](std::int32_t i, std::int32_t j) { return at(i, i) > at(j, j); });
  double mean = 0;
  for (std::int64_t i = 0; i < width; ++i) mean += static_cast<double>(at(i, i));
  mean /= static_cast<double>(width);
  if (!(mean > 0)) return;
  // From the last input to the first: what is factored there is the inverse's upper triangle here.
  for (const float damp : {0.01f, 0.05f, 0.3f}) {
    std::vector<float> turned(static_cast<std::size_t>(width * width));
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        turned[static_cast<std::size_t>(i * width + j)] =
            at(order_[static_cast<std::size_t>(width - 1 - i)], order_[static_cast<std::size_t>(width - 1 - j)]) +
            (i == j ? damp * static_cast<float>(mean) : 0.0f);
    if (!factor(turned, width, team)) continue;
    products = {};
    std::ranges::reverse(turned);  // a lower triangle becomes an upper one
    upper_ = inverse(turned, width, team);
    return;
  }
}

void Gptq::round(std::span<float> rows, std::int64_t count, const Rounding& value) const {
  const auto n = static_cast<std::size_t>(width_);
  std::vector<float> open(static_cast<std::size_t>(count) * n);
  for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
    for (std::size_t i = 0; i < n; ++i) open[r * n + i] = rows[r * n + static_cast<std::size_t>(order_[i])];
  for (std::size_t i = 0; i < n; ++i) {
    const auto input = static_cast<std::size_t>(order_[i]);
    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
      float* const row = open.data() + r * n;
      const float stored = value(static_cast<std::int64_t>(r), static_cast<std::int64_t>(input), row[i]);
      rows[r * n + input] = stored;
      if (upper_.empty()) continue;
      const float* const by = upper_.data() + i * n;
      const float error = (row[i] - stored) / by[i];
      for (std::size_t j = i + 1; j < n; ++j) row[j] -= error * by[j];
    }
  }
}

}  // namespace espalier::quantizer
