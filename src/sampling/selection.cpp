#include "sampling/selection.h"

#include <algorithm>
#include <functional>

namespace espalier::sampling {
namespace {

// In 16 chains: a single one waits for each comparison in turn.
float smallest(std::span<const float> x, float at_most) {
  constexpr std::size_t chains = 16;
  float low[chains];
  std::fill(low, low + chains, at_most);
  std::size_t i = 0;
  for (; i + chains <= x.size(); i += chains) {
    for (std::size_t c = 0; c < chains; ++c) low[c] = x[i + c] < low[c] ? x[i + c] : low[c];
  }
  for (; i < x.size(); ++i) low[0] = std::min(low[0], x[i]);
  return *std::min_element(low, low + chains);
}

}  // namespace

float reached_by(const RowScan& scan, std::size_t count, std::vector<float>& scratch) {
  constexpr float lowest = std::numeric_limits<float>::lowest();
  const std::vector<float>& strips = scan.strip_max;
  if (count == 0 || 2 * count > strips.size()) return lowest;
  // The count-th largest of the maxima of disjoint groups is reached by a logit of each of `count` groups. Strips are
  // folded into fewer groups first, because selecting among them costs more than folding.
  std::size_t groups = std::min(strips.size(), std::max<std::size_t>(4 * count, 256));
  scratch.assign(strips.begin(), strips.begin() + static_cast<std::ptrdiff_t>(groups));
  for (std::size_t at = groups; at < strips.size(); at += groups) {
    std::size_t n = std::min(groups, strips.size() - at);
    for (std::size_t i = 0; i < n; ++i) scratch[i] = std::max(scratch[i], strips[at + i]);
  }
  auto nth = scratch.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(scratch.begin(), nth, scratch.end(), std::greater<>());
  return std::max(*nth, lowest);
}

void Candidates::make_room(std::size_t row) {
  if (tokens.size() >= row + strip_size) return;
  logits.resize(row + strip_size);
  tokens.resize(row + strip_size);
  weights.resize(row + strip_size);
}

void gather(std::span<const float> logits, AllowedMask mask, const RowScan& scan, float at_least, Candidates& out) {
  out.make_room(logits.size());
  std::size_t found = 0;
  for (std::size_t s = 0; s < scan.strip_max.size(); ++s) {
    if (!(scan.strip_max[s] >= at_least)) continue;
    std::size_t end = std::min((s + 1) * strip_size, logits.size());
    // Without branches: every logit is written, the next one over it unless it was found.
    for (std::size_t i = s * strip_size; i < end; ++i) {
      out.logits[found] = logits[i];
      out.tokens[found] = static_cast<TokenId>(i);
      found += std::size_t{logits[i] >= at_least} & std::size_t{allowed(mask, i)};
    }
  }
  out.count = found;
}

Cut Selection::cut(const Candidates& candidates, float max, std::size_t count, double mass) {
  crossing_.clear();
  const std::size_t n = candidates.count;
  constexpr std::size_t few = 192;  // sorting halves of so few costs less than clearing and filling the bins
  if (n <= few) {
    for (std::size_t i = 0; i < n; ++i) {
      crossing_.push_back({candidates.logits[i], candidates.tokens[i], candidates.weights[i]});
    }
    return cut_small(count, mass);
  }
  float lowest = smallest({candidates.logits.data(), n}, max);
  // Equal bins between max and lowest. Subtraction and multiplication round monotonically, so bins keep the order; the
  // halves keep the range finite.
  float range = 0.5f * max - 0.5f * lowest;
  // (A range so small that the rate would overflow puts everything into one bin.)
  float rate = range > 1e-30f ? static_cast<float>(bins - 1) / range : 0;
  bin_of_.resize(std::max(bin_of_.size(), n));
  for (std::size_t i = 0; i < n; ++i) {
    float bin = (0.5f * max - 0.5f * candidates.logits[i]) * rate;
    bin_of_[i] = static_cast<std::int32_t>(std::min(bin, static_cast<float>(bins - 1)));
  }
  bins_.assign(bins, {});
  for (std::size_t i = 0; i < n; ++i) {
    Bin& bin = bins_[bin_of_[i]];
    ++bin.count;
    bin.mass += candidates.weights[i];
  }
  int crossed = 0;
  for (; crossed < bins - 1 && bins_[crossed].count < count && bins_[crossed].mass < mass; ++crossed) {
    count -= bins_[crossed].count;
    mass -= bins_[crossed].mass;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (bin_of_[i] != crossed) continue;
    crossing_.push_back({candidates.logits[i], candidates.tokens[i], candidates.weights[i]});
  }
  return cut_small(count, mass);
}

// The cut among crossing_, by halves: nth_element is linear also for hostile input.
Cut Selection::cut_small(std::size_t count, double mass) {
  auto before = [](const Ranked& a, const Ranked& b) { return a.before(b); };
  auto low = crossing_.begin();
  auto high = crossing_.end();
  while (high - low > 24) {
    auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, before);
    double above = 0;
    for (auto it = low; it != middle; ++it) above += it->weight;
    auto half = static_cast<std::size_t>(middle - low);
    if (half >= count || above >= mass) {
      high = middle;
    } else {
      count -= half;
      mass -= above;
      low = middle;
    }
  }
  std::sort(low, high, before);
  for (double sum = 0; low != high; ++low) {
    sum += low->weight;
    if (--count == 0 || sum >= mass) return {low->logit, low->token};
  }
  return {};
}

}  // namespace espalier::sampling
