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

namespace {

void copy_row(const std::vector<const Tensor*>& tables, std::int64_t row, float* out) {
  for (const Tensor* part : tables) {
    if (row < part->rows()) {
      decode_row(part->dtype, part->row(row), {out, static_cast<std::size_t>(part->shape.back())});
      return;
    }
    row -= part->rows();
  }
}

}  // namespace

// Products wrap around; remainders count from zero up.
void look_up_ngrams(const NgramOp& op, const std::vector<const Tensor*>& tables, int row, const TokenOfRow& token,
                    float* out) {
  const int heads = static_cast<int>(op.sizes.size()), each = op.out.width / heads;
  std::uint64_t mixed = static_cast<std::uint64_t>(token(row)) * static_cast<std::uint64_t>(op.multipliers[0]);
  bool ended = false;
  for (int back = 1; back < op.longest; ++back) {
    const std::int64_t before = token(row - back);
    ended = ended || before == op.end;
    mixed ^= static_cast<std::uint64_t>(ended ? op.end : before) *
             static_cast<std::uint64_t>(op.multipliers[static_cast<std::size_t>(back)]);
    for (int i = 0; i < op.heads_each; ++i) {
      const auto head =
          static_cast<std::size_t>(back - 1) * static_cast<std::size_t>(op.heads_each) + static_cast<std::size_t>(i);
      const std::int64_t size = op.sizes[head], rest = static_cast<std::int64_t>(mixed) % size;
      copy_row(tables, op.offsets[head] + (rest < 0 ? rest + size : rest),
               out + static_cast<std::int64_t>(head) * each);
    }
  }
}

void NgramStage::run(Pass& pass) {
  for (const BatchSequence& s : pass.sequences()) {
    const TokenOfRow of_row = [&](int row) { return token(pass, s, row); };
    pass.with().team.run(s.rows,
                         [&](int row) { look_up_ngrams(op_, tables_, row, of_row, out_.row(s.row_begin + row)); });
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
