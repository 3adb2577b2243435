#include "model/blocks/recurrent/rwkv7.h"

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// bias + second * how(first * x): a function of the row through few dimensions.
Rows narrow(Builder& b, Rows x, int rank, ActivationKind how, std::string_view first, std::string_view second) {
  const Rows low = b.matmul(x, {b.matrix(first, rank, x.width)}, true);
  if (how != ActivationKind::identity) b.emit(ActivateOp{{how}, low, low});
  return b.matmul(low, {b.matrix(second, x.width, rank)}, true);
}

// x + (the row before - x) * shares
Rows blended(Builder& b, Rows x, Rows difference, std::vector<float> shares) {
  const Rows out = b.copy(x);
  b.emit(CombineOp{.in = difference, .out = out, .by = b.constant(std::move(shares)), .add = true});
  return out;
}

Rows minus_row_before(Builder& b, Rows x) {
  const Rows difference = row_before(b, x);
  b.emit(CombineOp{.in = x, .out = difference, .scale = -1.0f, .add = true});
  return difference;
}

}  // namespace

Rwkv7TimeMix::Mixed Rwkv7TimeMix::blend(Builder& b, Rows x) const {
  const int parts = gate_rank > 0 ? 6 : 5;
  const std::vector<float> all = b.values(b.vector("time_mix_lerp_fused", {parts, x.width}));
  const Rows difference = minus_row_before(b, x);
  Mixed mixed;
  Rows* const of[] = {&mixed.r, &mixed.w, &mixed.k, &mixed.v, &mixed.a, &mixed.g};
  for (int i = 0; i < parts; ++i) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(i) * x.width;
    *of[i] = blended(b, x, difference, {from, from + x.width});
  }
  return mixed;
}

// Values move towards those of the first layer.
Rows Rwkv7TimeMix::value(Builder& b, Rows mixed) const {
  const Rows value = b.matmul(mixed, {b.matrix("time_mix_value", mixed.width, mixed.width)}, true);
  const Rows first = b.named().get("rwkv_value");
  if (!first) {
    b.named().put("rwkv_value", b.copy(value));
    return value;
  }
  const Rows share = narrow(b, mixed, value_rank, ActivationKind::identity, "time_mix_v1", "time_mix_v2");
  b.emit(ConstantOp{b.vector("time_mix_v0", {mixed.width}), share, true});
  const Rows difference = b.copy(first);
  b.emit(CombineOp{.in = value, .out = difference, .scale = -1.0f, .add = true});
  b.emit(CombineOp{
      .in = difference, .out = value, .gate = share, .gate_activation = ActivationKind::sigmoid, .add = true});
  return value;
}

Rows Rwkv7TimeMix::recur(Builder& b, const Mixed& m, Rows rate) const {
  const int width = rate.width, heads = width / head_dim;
  const Rows r = b.matmul(m.r, {b.matrix("time_mix_receptance", width, m.r.width)}, true);
  const Rows k = b.matmul(m.k, {b.matrix("time_mix_key", width, m.k.width)}, true);
  const Rows v = value(b, m.v);
  const Rows decay = narrow(b, m.w, decay_rank, ActivationKind::tanh, "time_mix_w1", "time_mix_w2");
  DecayOp fade{.in = decay, .out = decay, .bias = b.vector("time_mix_w0", {width}), .heads = heads};
  fade.rate = b.constant(std::vector<float>(static_cast<std::size_t>(heads), 1.0f));
  fade.form = DecayForm::bounded;
  fade.bound = -0.606531f;
  b.emit(fade);

  const Rows probe = b.buffer(width), answer = b.buffer(width), scaled = b.buffer(width);
  b.emit(CombineOp{.in = k, .out = probe, .by = b.vector("time_mix_k_k", {width})});
  NormOp unit{.kind = NormOp::Kind::l2, .in = probe, .out = probe, .eps = 1e-12f, .groups = heads};
  unit.l2 = L2Form::least;
  b.emit(unit);
  b.emit(CombineOp{.in = probe, .out = answer, .gate = rate});
  b.scale(probe, -1.0f);
  b.emit(CombineOp{.in = k, .out = scaled, .by = b.vector("time_mix_k_a", {width})});
  b.emit(CombineOp{.in = scaled, .out = k, .gate = rate, .add = true});
  b.emit(CombineOp{.in = scaled, .out = k, .scale = -1.0f, .add = true});

  RecurrenceOp op{.queries = r, .keys = k, .values = v, .out = b.buffer(width), .decay = decay};
  op.probe = probe;
  op.answer = answer;
  op.heads = op.key_heads = heads;
  op.key_dim = op.value_dim = head_dim;
  op.state = b.state(static_cast<std::size_t>(width) * static_cast<std::size_t>(head_dim));
  b.emit(op);
  if (b.has("time_mix_ln")) {
    NormOp norm{.kind = NormOp::Kind::layer, .in = op.out, .out = op.out, .eps = 64e-5f, .groups = heads};
    norm.gain = b.vector("time_mix_ln", {width});
    norm.bias = b.vector("time_mix_ln", {width}, ".bias");
    b.emit(norm);
  }
  const Rows weighed = b.buffer(width), bonus = b.buffer(heads);
  b.emit(CombineOp{.in = k, .out = weighed, .by = b.vector("time_mix_r_k", {width})});
  b.emit(DotOp{weighed, r, bonus});
  b.emit(CombineOp{.in = v, .out = op.out, .gate = bonus, .add = true});
  return op.out;
}

Rows Rwkv7TimeMix::operator()(Builder& b, Rows x) const {
  const Mixed mixed = blend(b, x);
  const Rows rate = narrow(b, mixed.a, rate_rank, ActivationKind::identity, "time_mix_a1", "time_mix_a2");
  b.emit(ConstantOp{b.vector("time_mix_a0", {x.width}), rate, true});
  b.emit(ActivateOp{{ActivationKind::sigmoid}, rate, rate});
  const Rows out = recur(b, mixed, rate);
  if (mixed.g) {
    const Rows gate = narrow(b, mixed.g, gate_rank, ActivationKind::sigmoid, "time_mix_g1", "time_mix_g2");
    b.emit(CombineOp{.in = out, .out = out, .gate = gate});
  }
  return b.matmul(out, {b.matrix("time_mix_output", b.spec().hidden, x.width)});
}

Rows Rwkv7ChannelMix::operator()(Builder& b, Rows x) const {
  const std::vector<float> shares = b.values(b.vector("channel_mix_lerp_k", {x.width}));
  const Rows mixed = blended(b, x, minus_row_before(b, x), shares);
  const Rows wide = b.matmul(mixed, {b.matrix("channel_mix_key", inner, x.width)});
  b.emit(ActivateOp{{ActivationKind::relu2}, wide, wide});
  return b.matmul(wide, {b.matrix("channel_mix_value", b.spec().hidden, inner)});
}

}  // namespace espalier
