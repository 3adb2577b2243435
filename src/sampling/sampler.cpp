#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/plain_draw.h"

namespace espalier {
namespace {

using sampling::allowed;
using sampling::block_size;
using sampling::ScanFor;
using sampling::strip_size;

Error fault(std::string message, std::string code) {
  return {Error::Kind::internal, std::move(message), {}, std::move(code)};
}

Result<> check_input(const PickInput& in) {
  const char* broken = nullptr;
  if (in.logits.empty() || in.logits.size() > std::numeric_limits<TokenId>::max())
    broken = "the row of logits is empty";
  else if (in.params == nullptr)
    broken = "there are no parameters";
  else if (in.params->penalises() && in.counts == nullptr)
    broken = "penalties need the counts of the tokens so far";
  else if (!in.mask.empty() && in.mask.size() < (in.logits.size() + 31) / 32)
    broken = "the mask is shorter than the row";
  else if (!(in.uniform >= 0 && in.uniform < 1))
    broken = "the uniform number is outside [0, 1)";
  if (broken != nullptr) return fault(fmt::format("cannot sample: {}", broken), "bad_sampling_input");
  return success();
}

// The smallest float that is not below `bound`.
float at_or_above(double bound) {
  auto rounded = static_cast<float>(bound);
  return rounded < bound ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
}

}  // namespace

// Scans the (penalised) row; afterwards scan_.max is a finite allowed logit.
Result<> Sampler::prepare(const PickInput& in, bool filtered) {
  const SamplingParams& p = *in.params;
  double sharpness = p.greedy() ? 1 : 1 / p.temperature;
  bool sums = !p.greedy() && (!filtered || p.top_p < 1);
  scan_row(in.logits, in.mask, sharpness, sums ? ScanFor::sums : ScanFor::maxima, scan_);
  return check_scan(scan_);
}

Result<Pick> Sampler::pick(const PickInput& in) {
  ESP_CHECK(check_input(in));
  PenalisedRow row(in.logits, *in.params, in.counts, in.forbidden, saved_);
  bool filtered = in.params->filters(in.logits.size());
  ESP_CHECK(prepare(in, filtered));
  if (in.params->greedy()) return likeliest(in);
  if (!filtered) return draw_from_row(in);
  filter(in);
  return draw_from_candidates(in.uniform);
}

Pick Sampler::likeliest(const PickInput& in) const {
  auto strip = static_cast<std::size_t>(std::find(scan_.strip_max.begin(), scan_.strip_max.end(), scan_.max) -
                                        scan_.strip_max.begin());
  std::size_t token = strip * strip_size;
  while (in.logits[token] != scan_.max || !allowed(in.mask, token)) ++token;
  return {static_cast<TokenId>(token), 1};
}

// Leaves exactly the kept tokens in candidates_, weighed.
void Sampler::filter(const PickInput& in) {
  const SamplingParams& p = *in.params;
  const std::size_t vocabulary = in.logits.size();
  bool by_count = p.top_k > 0 && static_cast<std::size_t>(p.top_k) < vocabulary;
  bool by_mass = p.top_p < 1;
  // Each filter says how small a kept logit can be; the largest bound decides what is looked at.
  float at_least = std::numeric_limits<float>::lowest();
  double max = scan_.max;
  if (p.min_p > 0) at_least = std::max(at_least, at_or_above(max + p.temperature * std::log(p.min_p)));
  if (by_mass) {
    // All tokens of less than (1 - top_p) / vocabulary together have less than 1 - top_p: the rest holds top_p.
    double least = (1 - p.top_p) * scan_.total / static_cast<double>(vocabulary);
    double slack = 1e-3;  // far more than the rounding of the weights
    at_least = std::max(at_least, static_cast<float>(max + p.temperature * std::min(std::log(least) - slack, 0.0)));
  }
  if (by_count) at_least = std::max(at_least, sampling::reached_by(scan_, static_cast<std::size_t>(p.top_k), scratch_));
  gather(in.logits, in.mask, scan_, at_least, candidates_);
  const std::size_t found = candidates_.count;
  sampling::weigh({candidates_.logits.data(), found}, scan_.max, scan_.sharpness, {candidates_.weights.data(), found});
  if (!by_count && !by_mass) return;

  std::size_t count = by_count ? static_cast<std::size_t>(p.top_k) : vocabulary;
  double mass = by_mass ? p.top_p * scan_.total : std::numeric_limits<double>::infinity();
  sampling::Cut cut = selection_.cut(candidates_, scan_.max, count, mass);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    bool keep = cut.keeps(candidates_.logits[i], candidates_.tokens[i]);
    candidates_.tokens[kept] = candidates_.tokens[i];
    candidates_.weights[kept] = candidates_.weights[i];
    kept += static_cast<std::size_t>(keep);
  }
  candidates_.count = kept;
}

// Sums the kept weights group by group, each in eight lanes; the order depends on nothing but the kept tokens.
double Sampler::sum_groups() {
  const std::size_t groups = (candidates_.count + group_size - 1) / group_size;
  group_sum_.resize(groups);
  double total = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    std::size_t begin = g * group_size;
    std::size_t end = std::min(begin + group_size, candidates_.count);
    double lane[8] = {};
    for (std::size_t i = begin; i < end; ++i) lane[i % 8] += candidates_.weights[i];
    group_sum_[g] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    total += group_sum_[g];
  }
  return total;
}

Pick Sampler::draw_from_candidates(double uniform) {
  double total = sum_groups();
  double target = uniform * total;
  double sum = 0;
  std::size_t group = 0;
  for (std::size_t g = 0; g < group_sum_.size(); ++g) {
    if (!(group_sum_[g] > 0)) continue;
    group = g;
    if (sum + group_sum_[g] > target) break;
    sum += group_sum_[g];
  }
  std::size_t begin = group * group_size;
  std::size_t end = std::min(begin + group_size, candidates_.count);
  std::size_t last = begin;  // of a weight above zero; the answer when rounding keeps the sum below the target
  for (std::size_t i = begin; i < end; ++i) {
    if (!(candidates_.weights[i] > 0)) continue;
    last = i;
    sum += candidates_.weights[i];
    if (sum > target) break;
  }
  return {candidates_.tokens[last], candidates_.weights[last] / total};
}

// A copy of one block; -infinity where not allowed.
std::span<float> Sampler::allowed_block(const PickInput& in, std::size_t block) {
  std::size_t begin = block * block_size;
  std::span<const float> logits = in.logits.subspan(begin, std::min<std::size_t>(block_size, in.logits.size() - begin));
  scratch_.assign(logits.begin(), logits.end());
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    if (!allowed(in.mask, begin + i)) scratch_[i] = -std::numeric_limits<float>::infinity();
  }
  return scratch_;
}

Pick Sampler::draw_from_row(const PickInput& in) {
  const sampling::PlainDraw draw(scan_, in.uniform);
  return draw.from(allowed_block(in, draw.block()));
}

Result<std::vector<double>> Sampler::distribution(const PickInput& in) {
  ESP_CHECK(check_input(in));
  PenalisedRow row(in.logits, *in.params, in.counts, in.forbidden, saved_);
  bool filtered = in.params->filters(in.logits.size());
  ESP_CHECK(prepare(in, filtered));
  std::vector<double> result(in.logits.size(), 0.0);
  if (in.params->greedy()) {
    result[likeliest(in).token] = 1;
  } else if (filtered) {
    filter(in);
    double total = sum_groups();
    for (std::size_t i = 0; i < candidates_.count; ++i) {
      result[candidates_.tokens[i]] = candidates_.weights[i] / total;
    }
  } else {
    for (std::size_t b = 0; b < scan_.block_sum.size(); ++b) {
      if (!(scan_.block_sum[b] > 0)) continue;
      allowed_block(in, b);
      sampling::weigh(scratch_, scan_.block_max[b], scan_.sharpness, scratch_);
      double scale = scan_.block_scale(b) / scan_.total;
      for (std::size_t i = 0; i < scratch_.size(); ++i) result[b * block_size + i] = scratch_[i] * scale;
    }
  }
  return result;
}

}  // namespace espalier
