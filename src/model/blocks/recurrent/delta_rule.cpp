#include "model/blocks/recurrent/delta_rule.h"

#include <cmath>

#include "model/blocks/recurrent/causal_conv.h"
#include "model/blocks/recurrent/decay_rates.h"
#include "model/program/builder.h"

namespace espalier {

// Queries, keys, values and gate.
std::vector<MatrixPart> DeltaRule::qkvz(Builder& b, int inputs) const {
  const int k = keys(), v = values(), of_head = value_heads / key_heads * value_dim, period = 2 * (key_dim + of_head);
  if (stored == Stored::by_key_head && (!b.is_gguf() || b.has("ssm_in"))) {
    const MatrixPart all = b.matrix("ssm_in", 2 * (k + v), inputs);
    return {some_rows(all, {0, key_dim, period}, k), some_rows(all, {key_dim, key_dim, period}, k),
            some_rows(all, {2 * key_dim, of_head, period}, v),
            some_rows(all, {2 * key_dim + of_head, of_head, period}, v)};
  }
  if (stored != Stored::apart) return {b.matrix("attn_qkv", 2 * k + v, inputs), b.matrix("attn_gate", v, inputs)};
  return {b.matrix(query, k, inputs), b.matrix(key, k, inputs), b.matrix(value, v, inputs),
          b.matrix("ssm_g_a", gate_rank > 0 ? gate_rank : v, inputs)};
}

std::vector<MatrixPart> DeltaRule::parts(Builder& b, int inputs) const {
  if (stored == Stored::in_one && b.has("ssm_in_all"))
    return {b.matrix("ssm_in_all", 2 * (keys() + values() + value_heads), inputs)};
  std::vector<MatrixPart> out = qkvz(b, inputs);
  if (stored == Stored::by_key_head) {
    const MatrixPart both = b.matrix("ssm_ba", 2 * value_heads, inputs);
    const int each = value_heads / key_heads;
    out.push_back(some_rows(both, {0, each, 2 * each}, value_heads));
    out.push_back(some_rows(both, {each, each, 2 * each}, value_heads));
    return out;
  }
  out.push_back(b.matrix("ssm_beta", value_heads, inputs));
  out.push_back(
      b.matrix(stored == Stored::apart ? "ssm_f_a" : "ssm_alpha", decay_rank > 0 ? decay_rank : decays(), inputs));
  return out;
}

DeltaRule::Projected DeltaRule::project(Builder& b, Rows x) const {
  const Rows all = b.matmul(x, parts(b, x.width), true);
  int at = 0;
  const auto next = [&](int width) {
    at += width;
    return all.part(at - width, width);
  };
  Projected p;
  p.qkv = next(2 * keys() + values());
  p.gate = next(gate_rank > 0 ? gate_rank : values());
  p.beta = next(value_heads);
  p.decay = next(decay_rank > 0 ? decay_rank : decays());
  if (gate_rank > 0) p.gate = b.matmul(p.gate, {b.matrix("ssm_g_b", values(), gate_rank)});
  if (decay_rank > 0) p.decay = b.matmul(p.decay, {b.matrix("ssm_f_b", decays(), decay_rank)}, true);
  return p;
}

void DeltaRule::convolve(Builder& b, Rows qkv) const {
  CausalConv conv{.taps = taps, .activation = activation};
  if (stored == Stored::apart && !b.has("ssm_conv1d"))
    conv.parts = {{"ssm_conv1d_q", keys()}, {"ssm_conv1d_k", keys()}, {"ssm_conv1d_v", values()}};
  else
    conv.parts = {{"ssm_conv1d", qkv.width}};
  conv(b, qkv);
  for (const Rows& heads : {qkv.part(0, keys()), qkv.part(keys(), keys())})
    b.emit(NormOp{.kind = NormOp::Kind::l2, .in = heads, .out = heads, .eps = 1e-6f, .groups = key_heads});
}

void DeltaRule::make_decay(Builder& b, Rows rows) const {
  DecayOp op{.in = rows, .out = rows, .heads = value_heads, .form = decay, .bound = decay_bound};
  op.rate = decay_rates(b, {value_heads});
  op.bias = b.vector("ssm_dt", {rows.width}, b.is_gguf() ? ".bias" : "");
  b.emit(op);
}

Rows DeltaRule::recur(Builder& b, const Projected& p) const {
  RecurrenceOp op{.queries = p.qkv.part(0, keys()),
                  .keys = p.qkv.part(keys(), keys()),
                  .values = p.qkv.part(2 * keys(), values()),
                  .out = b.buffer(values()),
                  .decay = p.decay,
                  .beta = p.beta,
                  .heads = value_heads,
                  .key_heads = key_heads,
                  .key_dim = key_dim,
                  .value_dim = value_dim,
                  .in_turns = tiled_in_gguf && b.is_gguf(),
                  .delta = true};
  op.scale = 1.0f / std::sqrt(static_cast<float>(key_dim));
  op.state = b.state(static_cast<std::size_t>(value_heads) * static_cast<std::size_t>(key_dim) *
                     static_cast<std::size_t>(value_dim));
  b.emit(op);
  return op.out;
}

Rows DeltaRule::operator()(Builder& b, Rows x) const {
  const Projected p = project(b, x);
  convolve(b, p.qkv);
  b.emit(ActivateOp{{ActivationKind::sigmoid}, p.beta, p.beta});
  if (beta_scale != 1.0f) b.scale(p.beta, beta_scale);
  make_decay(b, p.decay);
  const Rows made = recur(b, p);
  NormOp norm{.in = made, .out = made, .eps = norm_eps, .groups = value_heads, .gate = p.gate, .gate_form = gate};
  norm.gain = b.vector("ssm_norm", {value_dim});
  b.emit(norm);
  return b.matmul(made, {b.matrix(output, b.spec().hidden, values())});
}

}  // namespace espalier
