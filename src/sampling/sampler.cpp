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

}  // namespace

// Scans the (penalised) row; afterwards scan_.max is a finite allowed logit.
Result<> Sampler::prepare(const PickInput& in, bool filtered) {
  const SamplingParams& p = *in.params;
  double sharpness = p.greedy() ? 1 : 1 / p.temperature;
  const ScanFor what = p.greedy() ? ScanFor::maxima : filtered ? sampling::scan_for_filters(p) : ScanFor::sums;
  scan_row(in.logits, in.mask, sharpness, what, scan_);
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
  return filtered_.draw(in.uniform);
}

Pick Sampler::likeliest(const PickInput& in) const {
  auto strip = static_cast<std::size_t>(std::find(scan_.strip_max.begin(), scan_.strip_max.end(), scan_.max) -
                                        scan_.strip_max.begin());
  std::size_t token = strip * strip_size;
  while (in.logits[token] != scan_.max || !allowed(in.mask, token)) ++token;
  return {static_cast<TokenId>(token), 1};
}

void Sampler::filter(const PickInput& in) {
  const std::size_t vocabulary = in.logits.size();
  gather(in.logits, in.mask, scan_, filtered_.at_least(*in.params, scan_, vocabulary), filtered_.found());
  filtered_.keep(*in.params, scan_, vocabulary);
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
    double total = filtered_.sum();
    const sampling::Candidates& kept = filtered_.found();
    for (std::size_t i = 0; i < kept.count; ++i) result[kept.tokens[i]] = kept.weights[i] / total;
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
