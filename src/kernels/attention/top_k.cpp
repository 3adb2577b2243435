#include "kernels/attention/top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace espalier {
namespace {

constexpr std::size_t kListedScores = 32;

struct Better {
  std::span<const float> scores;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x != y ? x > y : a < b;
  }
};

void keep_list(const Better& better, std::span<std::int32_t> best) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < better.scores.size(); ++i) {
    const bool full = kept == best.size();
    if (full && better.scores[i] <= better.scores[static_cast<std::size_t>(best.back())]) continue;  // mostly
    const auto index = static_cast<std::int32_t>(i);
    if (full && !better(index, best.back())) continue;
    std::size_t at = full ? kept - 1 : kept++;
    for (; at > 0 && better(index, best[at - 1]); --at) best[at] = best[at - 1];
    best[at] = index;
  }
}

}  // namespace

void top_k(std::span<const float> scores, std::span<std::int32_t> best) {
  if (best.empty()) return;
  const Better better{scores};
  if (best.size() <= kListedScores) return keep_list(better, best);
  std::vector<std::int32_t> all(scores.size());
  std::iota(all.begin(), all.end(), 0);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(best.size());
  if (end != all.end()) std::nth_element(all.begin(), end, all.end(), better);
  std::sort(all.begin(), end, better);
  std::copy(all.begin(), end, best.begin());
}

}  // namespace espalier
