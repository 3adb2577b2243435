#include "model/blocks/recurrent/mamba2.h"

#include "model/blocks/recurrent/causal_conv.h"
#include "model/blocks/recurrent/decay_rates.h"
#include "model/program/builder.h"

namespace espalier {

Rows Mamba2::project(Builder& b, Rows x) const {
  if (in_scale != 1.0f) {
    const Rows scaled = b.buffer(x.width);
    b.emit(CombineOp{.in = x, .out = scaled, .scale = in_scale});
    x = scaled;
  }
  const Rows all = b.matmul(x, {b.matrix("ssm_in", 2 * (inner() + shared()) + heads, x.width, in_bias)}, true);
  if (scales.empty()) return all;
  std::vector<float> by;
  const int widths[] = {inner(), inner(), shared(), shared(), heads};
  for (std::size_t i = 0; i < scales.size(); ++i) by.insert(by.end(), static_cast<std::size_t>(widths[i]), scales[i]);
  b.emit(CombineOp{.in = all, .out = all, .by = b.constant(std::move(by))});
  return all;
}

Rows Mamba2::recur(Builder& b, Rows mixed, Rows steps) const {
  b.emit(TimeStepOp{steps, steps, b.vector("ssm_dt", {heads}, b.is_gguf() ? ".bias" : ""), least_step, most_step});
  const Rows decay = b.buffer(heads);
  b.emit(DecayOp{.in = steps, .out = decay, .rate = decay_rates(b, {heads}), .heads = heads, .form = DecayForm::step});
  RecurrenceOp op{.queries = mixed.part(inner() + shared(), shared()),
                  .keys = mixed.part(inner(), shared()),
                  .values = mixed.part(0, inner()),
                  .out = b.buffer(inner()),
                  .decay = decay,
                  .beta = steps,
                  .heads = heads,
                  .key_heads = groups,
                  .key_dim = state,
                  .value_dim = head_dim};
  op.skip = b.vector("ssm_d", {heads}, "");
  op.state = b.state(static_cast<std::size_t>(inner()) * static_cast<std::size_t>(state));
  b.emit(op);
  return op.out;
}

void Mamba2::gate_by(Builder& b, Rows out, Rows by) const {
  const bool norms = norm_in_gguf && b.is_gguf() ? b.has("ssm_norm") : normed;
  if (!norms) return b.emit(CombineOp{.in = out, .out = out, .gate = by, .gate_activation = ActivationKind::silu});
  NormOp norm{.in = out, .out = out, .eps = norm_eps, .groups = groups, .gate = by, .gate_form = gate};
  norm.gain = b.is_gguf() ? b.vector("ssm_norm", {groups, inner() / groups}) : b.vector("ssm_norm", {inner()});
  b.emit(norm);
}

Rows Mamba2::operator()(Builder& b, Rows x) const {
  const Rows all = project(b, x), mixed = all.part(inner(), inner() + 2 * shared());
  CausalConv{{{"ssm_conv1d", mixed.width}}, taps, conv_bias, activation}(b, mixed);
  const Rows out = recur(b, mixed, all.part(2 * (inner() + shared()), heads));
  gate_by(b, out, all.part(0, inner()));
  return b.matmul(out, {b.matrix("ssm_out", b.spec().hidden, inner(), out_bias)});
}

}  // namespace espalier
