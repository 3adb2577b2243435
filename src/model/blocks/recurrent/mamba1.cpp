#include "model/blocks/recurrent/mamba1.h"

#include "model/blocks/recurrent/causal_conv.h"
#include "model/blocks/recurrent/decay_rates.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// -rates, state by state instead of channel by channel.
std::vector<float> turned(const std::vector<float>& rates, std::size_t states) {
  std::vector<float> out(rates.size());
  const std::size_t channels = rates.size() / states;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t n = 0; n < states; ++n) out[n * channels + c] = -rates[c * states + n];
  return out;
}

}  // namespace

void Mamba1::norm(Builder& b, Rows rows, std::string_view role) const {
  if (norms == Norms::none) return;
  NormOp op{.in = rows, .out = rows, .eps = norm_eps};
  if (norms == Norms::with_gain) op.gain = b.vector(role, {rows.width});
  b.emit(op);
}

Rows Mamba1::project(Builder& b, Rows x) const {
  const MatrixPart all = b.matrix("ssm_in", 2 * inner, x.width, bias);
  if (!in_turns) return b.matmul(x, {all}, true);
  return b.matmul(x, {some_rows(all, {0, 1, 2}, inner), some_rows(all, {1, 1, 2}, inner)}, true);
}

// A head's rows of the tensor that has those of all.
MatrixPart Mamba1::of_head(Builder& b, const std::string& role, int outputs, int inputs, int head) const {
  const bool biased = role == "ssm_dt";
  if (heads == 0) return b.matrix(role, outputs, inputs, biased);
  MatrixPart part{b.name(role + "_heads"), {heads, outputs, inputs}, outputs};
  part.rows.first = std::int64_t{head} * outputs;
  if (biased) {
    part.bias = b.name(role + "_heads_bias");
    part.bias_shape = {heads, outputs};
  }
  return part;
}

void Mamba1::scan(Builder& b, Rows in, Rows out, int head) const {
  const int width = in.width;
  const Rows made = b.matmul(in, {of_head(b, "ssm_x", rank + 2 * state, width, head)}, true);
  const Rows ranks = made.part(0, rank), keys = made.part(rank, state), queries = made.part(rank + state, state);
  norm(b, ranks, "ssm_dt_norm");
  norm(b, keys, "ssm_b_norm");
  norm(b, queries, "ssm_c_norm");
  const Rows steps = b.matmul(ranks, {of_head(b, "ssm_dt", width, rank, head)}, true);
  b.emit(TimeStepOp{.in = steps, .out = steps});
  ScanOp op{.in = in, .step = steps, .input = keys, .output = queries, .out = out, .size = state};
  const Shape skips = heads > 0 ? Shape{heads, width} : Shape{width};
  const Shape rates = heads > 0 ? Shape{heads, width, state} : Shape{width, state};
  const auto part = [&](VectorId all, std::size_t count) {
    const auto from = b.values(all).begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(head) * count);
    return std::vector<float>(from, from + static_cast<std::ptrdiff_t>(count));
  };
  const auto channels = static_cast<std::size_t>(width), states = static_cast<std::size_t>(state);
  op.rates = b.constant(turned(part(decay_rates(b, rates), channels * states), states));
  op.skip = b.constant(part(b.vector("ssm_d", skips, ""), channels));
  op.state = b.state(channels * states);
  b.emit(op);
}

Rows Mamba1::operator()(Builder& b, Rows x) const {
  const Rows both = project(b, x);
  const Rows in = both.part(0, inner), gate = both.part(inner, inner), out = b.buffer(inner);
  CausalConv{{{"ssm_conv1d", inner}}, taps, conv_bias, activation}(b, in);
  const int parts = heads > 0 ? heads : 1, width = inner / parts;
  for (int h = 0; h < parts; ++h) scan(b, in.part(h * width, width), out.part(h * width, width), h);
  b.emit(CombineOp{.in = out, .out = out, .gate = gate, .gate_activation = ActivationKind::silu});
  return b.matmul(out, {b.matrix("ssm_out", b.spec().hidden, inner, bias)});
}

}  // namespace espalier
