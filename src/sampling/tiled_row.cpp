#include "sampling/tiled_row.h"

#include <algorithm>

namespace espalier {

using sampling::block_size;
using sampling::ScanFor;
using sampling::strip_size;

bool TiledRow::suits(const SamplingParams& params, std::size_t vocabulary) {
  return !params.penalises() && params.logit_bias.empty() && (params.greedy() || !params.filters(vocabulary));
}

void TiledRow::begin(std::size_t vocabulary, const SamplingParams& params) {
  vocabulary_ = vocabulary;
  greedy_ = params.greedy();
  begin_scan(vocabulary, greedy_ ? 1 : 1 / params.temperature, greedy_ ? ScanFor::maxima : ScanFor::sums, scan_);
  best_.resize(greedy_ ? scan_.block_max.size() : 0);
}

void TiledRow::read(std::size_t first, std::span<const float> logits) {
  const std::size_t block = first / block_size;
  scan_block(block, logits, {}, scan_);
  if (!greedy_) return;
  // The first of the largest: its strip, then the token.
  const float* strips = scan_.strip_max.data() + first / strip_size;
  std::size_t at = static_cast<std::size_t>(
                       std::find(strips, strips + (logits.size() - 1) / strip_size, scan_.block_max[block]) - strips) *
                   strip_size;
  while (at + 1 < logits.size() && logits[at] != scan_.block_max[block]) ++at;
  best_[block] = static_cast<TokenId>(first + at);
}

Result<> TiledRow::end() {
  end_scan(scan_);
  return check_scan(scan_);
}

Pick TiledRow::likeliest() const {
  const auto best = std::find(scan_.block_max.begin(), scan_.block_max.end(), scan_.max) - scan_.block_max.begin();
  return {best_[static_cast<std::size_t>(best)], 1};
}

std::span<float> TiledRow::block(std::size_t index) {
  scratch_.resize(std::min<std::size_t>(block_size, vocabulary_ - index * block_size));
  return scratch_;
}

}  // namespace espalier
