#include "bench/load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace espalier::bench {

double percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double place = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

Summary summarise(std::span<const double> sample, std::span<const double> percentiles) {
  Summary s;
  s.count = sample.size();
  for (const double percent : percentiles) s.asked[percent] = 0;
  if (sample.empty()) return s;
  std::vector<double> sorted(sample.begin(), sample.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  s.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (const double x : sorted) squares += (x - s.mean) * (x - s.mean);
  s.deviation = std::sqrt(squares / n);
  s.median = percentile(sorted, 50);
  s.p90 = percentile(sorted, 90);
  s.p95 = percentile(sorted, 95);
  s.p99 = percentile(sorted, 99);
  for (auto& [percent, value] : s.asked) value = percentile(sorted, percent);
  s.least = sorted.front();
  s.most = sorted.back();
  return s;
}

}  // namespace espalier::bench
