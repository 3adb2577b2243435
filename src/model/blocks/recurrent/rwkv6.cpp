#include "model/blocks/recurrent/rwkv6.h"

#include <cmath>

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Rows less_than_before(Builder& b, Rows x) {
  const Rows difference = row_before(b, x);
  b.emit(CombineOp{.in = x, .out = difference, .scale = -1.0f, .add = true});
  return difference;
}

// x + (the row before - x) * a stored share of each channel
Rows shifted(Builder& b, Rows x, Rows difference, std::string_view role) {
  const Rows out = b.copy(x);
  b.emit(CombineOp{.in = difference, .out = out, .by = b.vector(role, {x.width}), .add = true});
  return out;
}

RecurrenceOp recurrence(Builder& b, Rows r, Rows k, Rows v, Rows decay, int head_dim) {
  RecurrenceOp op{.queries = r, .keys = k, .values = v, .out = b.buffer(r.width), .decay = decay};
  op.heads = op.key_heads = r.width / head_dim;
  op.key_dim = op.value_dim = head_dim;
  op.state = b.state(static_cast<std::size_t>(r.width) * static_cast<std::size_t>(head_dim));
  return op;
}

}  // namespace

// The shares of the row before for w, k, v, r and g, side by side.
Rows Rwkv6TimeMix::shares(Builder& b, Rows x, Rows difference) const {
  const int width = x.width;
  const Rows low =
      b.matmul(shifted(b, x, difference, "time_mix_lerp_x"), {b.matrix("time_mix_w1", 5 * mix_rank, width)}, true);
  b.emit(ActivateOp{{ActivationKind::tanh}, low, low});
  GroupedMatmulOp op{0, 5, mix_rank, width, low, b.buffer(5 * width)};
  for (int i = 0; i < 5; ++i) {
    MatrixPart part{b.name("time_mix_w2") + ".weight", {5, width, mix_rank}, width};
    part.rows.first = std::int64_t{i} * width;
    const MatrixId id = b.need({{std::move(part)}, mix_rank});
    if (i == 0) op.first = id;
  }
  b.emit(op);
  if (b.has("time_mix_lerp_fused") || !b.has("time_mix_lerp_w")) {
    b.emit(ConstantOp{b.vector("time_mix_lerp_fused", {5, width}), op.out, true});
    return op.out;
  }
  int at = 0;
  for (const std::string_view role :
       {"time_mix_lerp_w", "time_mix_lerp_k", "time_mix_lerp_v", "time_mix_lerp_r", "time_mix_lerp_g"})
    b.emit(ConstantOp{b.vector(role, {width}), op.out.part(width * at++, width), true});
  return op.out;
}

Rwkv6TimeMix::Mixed Rwkv6TimeMix::blend(Builder& b, Rows x) const {
  const Rows difference = less_than_before(b, x), by = shares(b, x, difference);
  Mixed mixed;
  int at = 0;
  for (Rows* of : {&mixed.w, &mixed.k, &mixed.v, &mixed.r, &mixed.g}) {
    *of = b.copy(x);
    b.emit(CombineOp{.in = difference, .out = *of, .gate = by.part(x.width * at++, x.width), .add = true});
  }
  return mixed;
}

// exp(-exp(.))
Rows Rwkv6TimeMix::decay(Builder& b, Rows mixed) const {
  const int width = mixed.width, heads = width / head_dim;
  const Rows low = b.matmul(mixed, {b.matrix("time_mix_decay_w1", decay_rank, width)}, true);
  b.emit(ActivateOp{{ActivationKind::tanh}, low, low});
  const Rows out = b.matmul(low, {b.matrix("time_mix_decay_w2", width, decay_rank)}, true);
  b.emit(ConstantOp{b.vector("time_mix_decay", {width}), out, true});
  b.emit(ActivateOp{{ActivationKind::exp}, out, out});
  DecayOp op{.in = out, .out = out, .heads = heads, .form = DecayForm::step};
  op.rate = b.constant(std::vector<float>(static_cast<std::size_t>(heads), 1.0f));
  b.emit(op);
  return out;
}

// Keys or values of all heads.
Rows Rwkv6TimeMix::keyed(Builder& b, Rows mixed, std::string_view role) const {
  const int heads = mixed.width / head_dim, stored = kv_heads > 0 ? kv_heads : heads, each = heads / stored;
  const Rows few = b.matmul(mixed, {b.matrix(role, stored * head_dim, mixed.width)}, true);
  if (each == 1) return few;
  const Rows all = b.buffer(heads * head_dim);
  for (int i = 0; i < each; ++i)
    b.emit(CopyOp{few, all.part(i * head_dim, ((stored - 1) * each + 1) * head_dim), stored, head_dim, head_dim,
                  each * head_dim});
  return all;
}

// The state before a row is the one that keys, values and decays of the row before make.
Rows Rwkv6TimeMix::read_before(Builder& b, Rows r, Rows k, Rows v, Rows decay) const {
  const int width = r.width, heads = width / head_dim;
  const RecurrenceOp op = recurrence(b, r, row_before(b, k), row_before(b, v), row_before(b, decay), head_dim);
  b.emit(op);
  const Rows weighed = b.buffer(width), bonus = b.buffer(heads);
  b.emit(CombineOp{.in = k, .out = weighed, .by = b.vector("time_mix_first", {heads, head_dim})});
  b.emit(DotOp{weighed, r, bonus});
  b.emit(CombineOp{.in = v, .out = op.out, .gate = bonus, .add = true});
  NormOp norm{.kind = NormOp::Kind::layer, .in = op.out, .out = op.out, .eps = 64e-5f, .groups = heads};
  norm.gain = b.vector("time_mix_ln", {width});
  norm.bias = b.vector("time_mix_ln", {width}, ".bias");
  b.emit(norm);
  return op.out;
}

// Keys count as much as their channel fades.
Rows Rwkv6TimeMix::read_behind(Builder& b, Rows r, Rows k, Rows v, Rows decay) const {
  const Rows faded = b.buffer(k.width);
  b.emit(CombineOp{.in = k, .out = faded, .gate = decay});
  b.emit(CombineOp{.in = faded, .out = k, .scale = -1.0f, .add = true});
  RecurrenceOp op = recurrence(b, r, k, v, decay, head_dim);
  op.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  b.emit(op);
  return op.out;
}

Rows Rwkv6TimeMix::operator()(Builder& b, Rows x) const {
  const Mixed m = blend(b, x);
  const bool bonus = b.has("time_mix_first") || !b.is_gguf();
  const Rows fade = decay(b, m.w), k = keyed(b, m.k, "time_mix_key"), v = keyed(b, m.v, "time_mix_value");
  const Rows r = b.matmul(m.r, {b.matrix("time_mix_receptance", x.width, x.width)}, true);
  const Rows gate = b.matmul(m.g, {b.matrix("time_mix_gate", x.width, x.width)}, true);
  const Rows out = bonus ? read_before(b, r, k, v, fade) : read_behind(b, r, k, v, fade);
  b.emit(CombineOp{
      .in = out, .out = out, .gate = gate, .gate_activation = bonus ? ActivationKind::silu : ActivationKind::sigmoid});
  return b.matmul(out, {b.matrix("time_mix_output", b.spec().hidden, x.width)});
}

Rows Rwkv6ChannelMix::operator()(Builder& b, Rows x) const {
  const Rows difference = less_than_before(b, x);
  const Rows mixed = shifted(b, x, difference, "channel_mix_lerp_k");
  const Rows by = b.matmul(shifted(b, x, difference, "channel_mix_lerp_r"),
                           {b.matrix("channel_mix_receptance", b.spec().hidden, x.width)}, true);
  const Rows wide = b.matmul(mixed, {b.matrix("channel_mix_key", inner, x.width)});
  b.emit(ActivateOp{{ActivationKind::relu2}, wide, wide});
  const Rows out = b.matmul(wide, {b.matrix("channel_mix_value", b.spec().hidden, inner)});
  b.emit(CombineOp{.in = out, .out = out, .gate = by, .gate_activation = ActivationKind::sigmoid});
  return out;
}

}  // namespace espalier
