#include "model/cpu/stages/ngram_stage.h"

#include <algorithm>

#include "tensor/decode.h"

namespace espalier {

NgramStage::NgramStage(const NgramOp& op, std::vector<const Tensor*> tables, Place out)
    : op_(op), tables_(std::move(tables)), out_(out) {}

// The state has the last tokens as floats, which hold every token id exactly.
std::int64_t NgramStage::token(const Pass& pass, const BatchSequence& s, int row) const {
  if (row >= 0) return pass.token(s.row_begin + row);
  if (s.state_in == nullptr) return op_.end;
  return static_cast<std::int64_t>(s.state_in[op_.state + static_cast<std::size_t>(op_.longest - 1 + row)]);
}

void NgramStage::copy(std::int64_t row, float* out) const {
  for (const Tensor* part : tables_) {
    if (row < part->rows()) {
      decode_row(part->dtype, part->row(row), {out, static_cast<std::size_t>(part->shape.back())});
      return;
    }
    row -= part->rows();
  }
}

// Products wrap around; remainders count from zero up.
void NgramStage::compute(const Pass& pass, const BatchSequence& s, int row) const {
  float* out = out_.row(s.row_begin + row);
  const int heads = static_cast<int>(op_.sizes.size()), each = op_.out.width / heads;
  std::uint64_t mixed =
      static_cast<std::uint64_t>(token(pass, s, row)) * static_cast<std::uint64_t>(op_.multipliers[0]);
  bool ended = false;
  for (int back = 1; back < op_.longest; ++back) {
    const std::int64_t before = token(pass, s, row - back);
    ended = ended || before == op_.end;
    mixed ^= static_cast<std::uint64_t>(ended ? op_.end : before) *
             static_cast<std::uint64_t>(op_.multipliers[static_cast<std::size_t>(back)]);
    for (int i = 0; i < op_.heads_each; ++i) {
      const auto head =
          static_cast<std::size_t>(back - 1) * static_cast<std::size_t>(op_.heads_each) + static_cast<std::size_t>(i);
      const std::int64_t size = op_.sizes[head], rest = static_cast<std::int64_t>(mixed) % size;
      copy(op_.offsets[head] + (rest < 0 ? rest + size : rest), out + static_cast<std::int64_t>(head) * each);
    }
  }
}

void NgramStage::run(Pass& pass) {
  for (const BatchSequence& s : pass.sequences()) {
    pass.with().team.run(s.rows, [&](int row) { compute(pass, s, row); });
    const int kept = op_.longest - 1;
    const auto keep = [&](float* state, int rows) {
      std::vector<float> last;
      for (int i = rows - kept; i < rows; ++i) last.push_back(static_cast<float>(token(pass, s, i)));
      std::copy(last.begin(), last.end(), state + op_.state);
    };
    for (const StateMark& mark : s.state_marks) keep(mark.out, mark.rows);
    if (s.state_out != nullptr) keep(s.state_out, s.rows);
  }
}

}  // namespace espalier
