#include "model/cpu/stages/compress_stage.h"

#include <algorithm>

namespace espalier {
namespace {

constexpr int kChannels = 64;       // of a task
constexpr float kNothing = -1e30f;  // the greatest gate of no token: exp(kNothing - any) is 0

}  // namespace

// A running softmax of some channels: the greatest gate, the sum of exponentials and of weighted values.
struct CompressStage::Channels {
  float greatest[kChannels], sum[kChannels], weighted[kChannels];
  int count;

  void clear() {
    std::fill_n(greatest, count, kNothing);
    std::fill_n(sum, count, 0.0f);
    std::fill_n(weighted, count, 0.0f);
  }
  void read(const float* state, int width) {
    std::copy_n(state, count, greatest);
    std::copy_n(state + width, count, sum);
    std::copy_n(state + 2 * width, count, weighted);
  }
  void write(float* state, int width) const {
    std::copy_n(greatest, count, state);
    std::copy_n(sum, count, state + width);
    std::copy_n(weighted, count, state + 2 * width);
  }
  void add(const CpuKernels& cpu, const float* value, const float* gate, const float* bias) {
    float logit[kChannels], before[kChannels], now[kChannels];
    for (int i = 0; i < count; ++i) {
      logit[i] = (gate ? gate[i] : 0.0f) + (bias ? bias[i] : 0.0f);
      const float top = std::max(greatest[i], logit[i]);
      before[i] = greatest[i] - top;
      now[i] = logit[i] - top;
      greatest[i] = top;
    }
    cpu.functions.activate({ActivationKind::exp}, before, before, count);
    cpu.functions.activate({ActivationKind::exp}, now, now, count);
    for (int i = 0; i < count; ++i) {
      sum[i] = sum[i] * before[i] + now[i];
      weighted[i] = weighted[i] * before[i] + now[i] * value[i];
    }
  }
  void finish(float* out) const {
    for (int i = 0; i < count; ++i) out[i] = weighted[i] / sum[i];
  }
};

CompressStage::CompressStage(const CompressOp& op, const Program& program, Place values, Place gates, Place out)
    : op_(op),
      values_(values),
      gates_(gates),
      out_(out),
      bias_(op.bias < 0 ? nullptr : program.vectors[static_cast<std::size_t>(op.bias)].data()) {}

// Channels [begin, end) of one sequence. `own` runs over the window, after what `next` gathered in the one before.
void CompressStage::run_part(const Pass& pass, const BatchSequence& s, int begin, int end) const {
  const CpuKernels& cpu = pass.with().cpu;
  const int width = op_.out.width, beside = op_.overlapping ? width : 0;  // where a row has its own values
  const std::size_t each = 3 * static_cast<std::size_t>(width), at = op_.state + static_cast<std::size_t>(begin);
  Channels own{}, next{};
  own.count = next.count = end - begin;
  own.clear();
  next.clear();
  if (s.state_in != nullptr) {
    own.read(s.state_in + at, width);
    if (op_.overlapping) next.read(s.state_in + at + each, width);
  }
  const auto keep = [&](float* state) {
    own.write(state + at, width);
    if (op_.overlapping) next.write(state + at + each, width);
  };
  auto mark = s.state_marks.begin();
  for (int i = 0; i < s.rows; ++i) {
    const int row = s.row_begin + i, place = static_cast<int>((s.first_position + i) % op_.every);
    const float *value = values_.row(row) + begin, *gate = gates_ ? gates_.row(row) + begin : nullptr;
    const float* bias = bias_ ? bias_ + std::int64_t{place} * op_.gates.width + begin : nullptr;
    own.add(cpu, value + beside, gate ? gate + beside : nullptr, bias ? bias + beside : nullptr);
    if (op_.overlapping) next.add(cpu, value, gate, bias);
    float* out = out_.row(row) + begin;
    if (place + 1 < op_.every) {
      std::fill_n(out, end - begin, 0.0f);
    } else {
      own.finish(out);
      own = next;
      next.clear();
    }
    for (; mark != s.state_marks.end() && mark->rows == i + 1; ++mark) keep(mark->out);
  }
  if (s.state_out != nullptr) keep(s.state_out);
}

void CompressStage::run(Pass& pass) {
  const int width = op_.out.width, pieces = (width + kChannels - 1) / kChannels;
  const auto sequences = pass.sequences();
  pass.with().team.run(static_cast<int>(sequences.size()) * pieces, [&](int chunk) {
    const int begin = chunk % pieces * kChannels;
    run_part(pass, sequences[static_cast<std::size_t>(chunk / pieces)], begin, std::min(width, begin + kChannels));
  });
}

}  // namespace espalier
