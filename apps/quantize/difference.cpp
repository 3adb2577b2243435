#include "quantize/difference.h"

#include <algorithm>
#include <cmath>

namespace espalier::quantizer {
namespace {

double logarithm_of_sum(std::span<const float> logits) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float one : logits) sum += std::exp(static_cast<double>(one) - static_cast<double>(most));
  return std::log(sum) + static_cast<double>(most);
}

}  // namespace

PositionDifference difference_at(std::span<const float> first, std::span<const float> second, TokenId next) {
  const double first_sum = logarithm_of_sum(first), second_sum = logarithm_of_sum(second);
  PositionDifference p;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double a = static_cast<double>(first[i]) - first_sum, b = static_cast<double>(second[i]) - second_sum;
    if (a > -80) p.divergence += std::exp(a) * (a - b);
  }
  const auto at = static_cast<std::size_t>(next);
  p.first_loss = first_sum - static_cast<double>(first[at]);
  p.second_loss = second_sum - static_cast<double>(second[at]);
  p.same_best = std::ranges::max_element(first) - first.begin() == std::ranges::max_element(second) - second.begin();
  return p;
}

Difference summed(std::span<const PositionDifference> positions) {
  Difference out;
  out.positions = static_cast<std::int64_t>(positions.size());
  if (positions.empty()) return out;
  std::vector<double> divergences;
  double first = 0, second = 0, same = 0, sum = 0;
  for (const PositionDifference& p : positions) {
    divergences.push_back(p.divergence);
    sum += p.divergence;
    first += p.first_loss;
    second += p.second_loss;
    same += p.same_best ? 1 : 0;
  }
  std::ranges::sort(divergences);
  const auto count = static_cast<double>(positions.size());
  out.first_perplexity = std::exp(first / count);
  out.second_perplexity = std::exp(second / count);
  out.divergence = sum / count;
  out.divergence_99 = divergences[static_cast<std::size_t>(0.99 * (count - 1))];
  out.divergence_most = divergences.back();
  out.same_best = same / count;
  return out;
}

}  // namespace espalier::quantizer
