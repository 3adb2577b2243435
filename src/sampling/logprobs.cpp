#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/plain_draw.h"

namespace espalier {

Result<> Logprobs::read(std::span<const float> logits) {
  logits_ = {};
  scan_row(logits, {}, 1, sampling::ScanFor::sums, scan_);
  if (!scan_.sound || !std::isfinite(scan_.max)) {
    return sampling::not_finite();
  }
  logits_ = logits;
  log_total_ = std::log(scan_.total);
  return success();
}

double Logprobs::of(TokenId token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= logits_.size()) return -std::numeric_limits<double>::infinity();
  return static_cast<double>(logits_[token]) - scan_.max - log_total_;
}

std::vector<TokenLogprob> Logprobs::of(std::span<const TokenId> tokens) const {
  std::vector<TokenLogprob> result;
  result.reserve(tokens.size());
  for (TokenId token : tokens) result.push_back({token, of(token)});
  return result;
}

std::vector<TokenLogprob> Logprobs::top(int count) {
  std::size_t wanted = std::min<std::size_t>(std::max(count, 0), logits_.size());
  if (wanted == 0) return {};
  gather(logits_, {}, scan_, sampling::reached_by(scan_, wanted, scratch_), candidates_);
  if (candidates_.count < wanted) gather(logits_, {}, scan_, -std::numeric_limits<float>::infinity(), candidates_);
  std::vector<sampling::Ranked> ranked(candidates_.count);
  for (std::size_t i = 0; i < ranked.size(); ++i) ranked[i] = {candidates_.logits[i], candidates_.tokens[i], 0};
  auto end = ranked.begin() + static_cast<std::ptrdiff_t>(wanted);
  auto before = [](const sampling::Ranked& a, const sampling::Ranked& b) { return a.before(b); };
  if (wanted < ranked.size()) std::nth_element(ranked.begin(), end, ranked.end(), before);
  std::sort(ranked.begin(), end, before);
  std::vector<TokenLogprob> result(wanted);
  for (std::size_t i = 0; i < wanted; ++i) result[i] = {ranked[i].token, of(ranked[i].token)};
  return result;
}

}  // namespace espalier
