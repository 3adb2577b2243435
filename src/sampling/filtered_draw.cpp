#include "sampling/filtered_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier::sampling {
namespace {

bool filters_by_count(const SamplingParams& p, std::size_t vocabulary) {
  return p.top_k > 0 && static_cast<std::size_t>(p.top_k) < vocabulary;
}

// The smallest float that is not below `bound`.
float at_or_above(double bound) {
  auto rounded = static_cast<float>(bound);
  return rounded < bound ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
}

}  // namespace

ScanFor scan_for_filters(const SamplingParams& params) {
  return params.top_p < 1 ? ScanFor::sums : ScanFor::maxima;
}

float FilteredDraw::at_least(const SamplingParams& p, const RowScan& scan, std::size_t vocabulary) {
  // Each filter says how small a kept logit can be; the largest bound decides what is looked at.
  float least = std::numeric_limits<float>::lowest();
  const double max = scan.max;
  if (p.min_p > 0) least = std::max(least, at_or_above(max + p.temperature * std::log(p.min_p)));
  if (p.top_p < 1) {
    // All tokens of less than (1 - top_p) / vocabulary together have less than 1 - top_p: the rest holds top_p.
    const double mass = (1 - p.top_p) * scan.total / static_cast<double>(vocabulary);
    const double slack = 1e-3;  // far more than the rounding of the weights
    least = std::max(least, static_cast<float>(max + p.temperature * std::min(std::log(mass) - slack, 0.0)));
  }
  if (filters_by_count(p, vocabulary))
    least = std::max(least, reached_by(scan, static_cast<std::size_t>(p.top_k), scratch_));
  return least;
}

void FilteredDraw::keep(const SamplingParams& p, const RowScan& scan, std::size_t vocabulary) {
  const std::size_t found = found_.count;
  weigh({found_.logits.data(), found}, scan.max, scan.sharpness, {found_.weights.data(), found});
  const bool by_count = filters_by_count(p, vocabulary), by_mass = p.top_p < 1;
  if (!by_count && !by_mass) return;
  const std::size_t count = by_count ? static_cast<std::size_t>(p.top_k) : vocabulary;
  const double mass = by_mass ? p.top_p * scan.total : std::numeric_limits<double>::infinity();
  const Cut cut = selection_.cut(found_, scan.max, count, mass);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const bool keep = cut.keeps(found_.logits[i], found_.tokens[i]);
    found_.tokens[kept] = found_.tokens[i];
    found_.weights[kept] = found_.weights[i];
    kept += static_cast<std::size_t>(keep);
  }
  found_.count = kept;
}

// Group by group, each in eight lanes; the order depends on nothing but the kept tokens.
double FilteredDraw::sum() {
  const std::size_t groups = (found_.count + group_size - 1) / group_size;
  group_sum_.resize(groups);
  double total = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = g * group_size, end = std::min(begin + group_size, found_.count);
    double lane[8] = {};
    for (std::size_t i = begin; i < end; ++i) lane[i % 8] += found_.weights[i];
    group_sum_[g] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    total += group_sum_[g];
  }
  return total;
}

Pick FilteredDraw::draw(double uniform) {
  const double total = sum(), target = uniform * total;
  double before = 0;
  std::size_t group = 0;
  for (std::size_t g = 0; g < group_sum_.size(); ++g) {
    if (!(group_sum_[g] > 0)) continue;
    group = g;
    if (before + group_sum_[g] > target) break;
    before += group_sum_[g];
  }
  const std::size_t begin = group * group_size, end = std::min(begin + group_size, found_.count);
  std::size_t last = begin;  // of a weight above zero; the answer when rounding keeps the sum below the target
  for (std::size_t i = begin; i < end; ++i) {
    if (!(found_.weights[i] > 0)) continue;
    last = i;
    before += found_.weights[i];
    if (before > target) break;
  }
  return {found_.tokens[last], found_.weights[last] / total};
}

}  // namespace espalier::sampling
