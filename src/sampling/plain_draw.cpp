#include "sampling/plain_draw.h"

#include <limits>
#include <string>

namespace espalier::sampling {
namespace {

Error fault(std::string message, std::string code) {
  return {Error::Kind::internal, std::move(message), {}, std::move(code)};
}

}  // namespace

Error not_finite() {
  return fault("the model's logits hold a NaN or an infinity", "logits_not_finite");
}

Error none_allowed() {
  return fault("no token may follow: the constraint and the forbidden tokens leave none", "no_token_allowed");
}

Result<> check_scan(const RowScan& scan) {
  if (!scan.sound) return not_finite();
  if (scan.max == -std::numeric_limits<float>::infinity()) return none_allowed();
  return success();
}

PlainDraw::PlainDraw(const RowScan& scan, double uniform) : scan_(scan), target_(uniform * scan.total) {
  for (std::size_t b = 0; b < scan.block_sum.size(); ++b) {
    if (!(scan.block_sum[b] > 0)) continue;
    block_ = b;
    scale_ = scan.block_scale(b);
    const double with = before_ + scan.block_sum[b] * scale_;
    if (with > target_) break;
    before_ = with;
  }
}

Pick PlainDraw::from(std::span<float> logits) const {
  weigh(logits, scan_.block_max[block_], scan_.sharpness, logits);
  double sum = before_;
  std::size_t last = 0;  // of a weight above zero; the answer when rounding keeps the sum below the target
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > 0)) continue;
    last = i;
    sum += logits[i] * scale_;
    if (sum > target_) break;
  }
  return {static_cast<TokenId>(block_ * block_size + last), logits[last] * scale_ / scan_.total};
}

}  // namespace espalier::sampling
