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

Rows Mamba1::scan(Builder& b, Rows in, Rows made) const {
  const Rows ranks = made.part(0, rank), keys = made.part(rank, state), queries = made.part(rank + state, state);
  norm(b, ranks, "ssm_dt_norm");
  norm(b, keys, "ssm_b_norm");
  norm(b, queries, "ssm_c_norm");
  const Rows steps = b.matmul(ranks, {b.matrix("ssm_dt", inner, rank, true)}, true);
  b.emit(TimeStepOp{.in = steps, .out = steps});
  ScanOp op{.in = in, .step = steps, .input = keys, .output = queries, .out = b.buffer(inner), .size = state};
  op.rates = b.constant(turned(b.values(decay_rates(b, {inner, state})), static_cast<std::size_t>(state)));
  op.skip = b.vector("ssm_d", {inner}, "");
  op.state = b.state(static_cast<std::size_t>(inner) * static_cast<std::size_t>(state));
  b.emit(op);
  return op.out;
}

Rows Mamba1::operator()(Builder& b, Rows x) const {
  const Rows both = b.matmul(x, {b.matrix("ssm_in", 2 * inner, x.width, bias)}, true);
  const Rows in = both.part(0, inner), gate = both.part(inner, inner);
  CausalConv{{{"ssm_conv1d", inner}}, taps, conv_bias, activation}(b, in);
  const Rows out = scan(b, in, b.matmul(in, {b.matrix("ssm_x", rank + 2 * state, inner)}, true));
  b.emit(CombineOp{.in = out, .out = out, .gate = gate, .gate_activation = ActivationKind::silu});
  return b.matmul(out, {b.matrix("ssm_out", b.spec().hidden, inner, bias)});
}

}  // namespace espalier
