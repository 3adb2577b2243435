// tiled_row.h: the token of a row whose logits are seen block by block as the model computes them, and not kept.
//
// For greedy and for plain sampling (no penalty, bias, mask or filter): the token is, bit for bit, what Sampler picks
// from the whole row (sampler.h), for both scan alike. A draw needs one block once more: who computed it does it again.
// Threads: read() by any number at once, each block once; begin() before, pick() after, by one.
// Fails:   pick() as Sampler::pick() does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "espalier/error.h"
#include "espalier/sampling.h"
#include "sampling/pick.h"
#include "sampling/plain_draw.h"
#include "sampling/row_scan.h"

namespace espalier {

// A row that is being read block by block: keeps sums, then asks again for the one block it needs.
class TiledRow {
 public:
  static bool suits(const SamplingParams& params, std::size_t vocabulary);

  // Requires: suits().
  void begin(std::size_t vocabulary, const SamplingParams& params);
  // The logits from `first` on, of a whole block; fewer where the row ends.
  void read(std::size_t first, std::span<const float> logits);
  // again(first, out) writes the logits of a block once more. uniform: of the request's noise.
  template <class Again>
  Result<Pick> pick(double uniform, Again again);

 private:
  Result<> end();
  Pick likeliest() const;
  std::span<float> block(std::size_t index);

  std::size_t vocabulary_ = 0;
  bool greedy_ = true;
  sampling::RowScan scan_;
  std::vector<TokenId> best_;  // of each block, when greedy
  std::vector<float> scratch_;
};

template <class Again>
Result<Pick> TiledRow::pick(double uniform, Again again) {
  ESP_CHECK(end());
  if (greedy_) return likeliest();
  const sampling::PlainDraw draw(scan_, uniform);
  const std::span<float> logits = block(draw.block());
  again(draw.block() * sampling::block_size, logits);
  return draw.from(logits);
}

}  // namespace espalier
