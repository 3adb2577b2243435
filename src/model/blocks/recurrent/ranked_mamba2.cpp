#include "model/blocks/recurrent/ranked_mamba2.h"

#include "model/blocks/recurrent/causal_conv.h"
#include "model/blocks/recurrent/decay_rates.h"
#include "model/program/builder.h"

namespace espalier {

void RankedMamba2::norm(Builder& b, Rows rows, std::string_view role) const {
  NormOp op{.in = rows, .out = rows, .eps = norm_eps};
  op.gain = b.vector(role, {rows.width});
  b.emit(op);
}

Rows RankedMamba2::recur(Builder& b, Rows in) const {
  const Rows made = b.matmul(in, {b.matrix("ssm_x", 2 * state + rank, inner())}, true);
  const Rows keys = made.part(0, state), queries = made.part(state, state), ranks = made.part(2 * state, rank);
  norm(b, keys, "ssm_b_norm");
  norm(b, queries, "ssm_c_norm");
  norm(b, ranks, "ssm_dt_norm");
  const Rows steps = b.matmul(ranks, {b.matrix("ssm_dt", heads, rank)}, true);  // in GGUF files with its bias
  b.emit(TimeStepOp{.in = steps, .out = steps, .bias = b.is_gguf() ? -1 : b.vector("ssm_dt_bias", {heads}, "")});
  const Rows decay = b.buffer(heads);
  b.emit(DecayOp{.in = steps, .out = decay, .rate = decay_rates(b, {heads}), .heads = heads, .form = DecayForm::step});
  RecurrenceOp op{
      .queries = queries, .keys = keys, .values = in, .out = b.buffer(inner()), .decay = decay, .beta = steps};
  op.heads = heads;
  op.key_heads = 1;
  op.key_dim = state;
  op.value_dim = head_dim;
  op.skip = b.vector("ssm_d", {heads}, "");
  op.state = b.state(static_cast<std::size_t>(inner()) * static_cast<std::size_t>(state));
  b.emit(op);
  return op.out;
}

Rows RankedMamba2::operator()(Builder& b, Rows x) const {
  const MatrixPart all = b.matrix("ssm_in", 2 * inner(), x.width);
  const Rows both = b.matmul(x,
                             {some_rows(all, {0, head_dim, 2 * head_dim}, inner()),
                              some_rows(all, {head_dim, head_dim, 2 * head_dim}, inner())},
                             true);
  const Rows gate = both.part(0, inner()), in = both.part(inner(), inner());
  CausalConv{{{"ssm_conv1d", inner()}}, taps, false, ActivationKind::silu}(b, in);
  const Rows out = recur(b, in);
  b.emit(CombineOp{.in = out, .out = out, .gate = gate, .gate_activation = ActivationKind::silu});
  return b.matmul(out, {b.matrix("ssm_out", b.spec().hidden, inner())});
}

}  // namespace espalier
