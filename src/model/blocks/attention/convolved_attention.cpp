#include "model/blocks/attention/convolved_attention.h"

#include <cmath>
#include <limits>

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {
// Each head's channels of the last tokens, tap by tap within a channel, times its own matrix.
Rows ConvolvedAttention::by_heads(Builder& b, Rows taps) const {
  const int heads = like.heads + like.kv_heads, dim = like.head_dim;
  GroupedMatmulOp op{0, heads, dim * head_taps, dim, taps, b.buffer(heads * dim)};
  for (int h = 0; h < heads; ++h) {
    MatrixPart part{b.name("attn_conv_heads") + ".weight", {heads * dim, dim, head_taps}, dim};
    part.rows.first = std::int64_t{h} * dim;
    part.joined_rows = dim;
    part.bias = b.name("attn_conv_heads") + ".bias";
    part.bias_shape = {heads * dim};
    const MatrixId id = b.need({{std::move(part)}, dim * head_taps});
    if (h == 0) op.first = id;
  }
  b.emit(op);
  return op.out;
}

// Behind the start there are no tokens, but the first convolution's bias: it is added behind the delays.
Rows ConvolvedAttention::convolve(Builder& b, Rows both) const {
  const int width = both.width;
  const Rows mixed = b.copy(both), taps = b.buffer(width * head_taps);
  CausalConv{{{"attn_conv_channels", width}}, channel_taps, false, ActivationKind::identity}(b, mixed);
  for (int j = 0; j < head_taps; ++j) {
    const Rows from = j + 1 < head_taps ? row_before(b, mixed, head_taps - 1 - j, head_taps) : mixed;
    b.emit(CopyOp{from, taps.part(j, (width - 1) * head_taps + 1), width, 1, 1, head_taps});
  }
  const std::vector<float> bias = b.values(b.vector("attn_conv_channels", {width}, ".bias"));
  std::vector<float> repeated;
  for (const float value : bias) repeated.insert(repeated.end(), static_cast<std::size_t>(head_taps), value);
  b.emit(ConstantOp{b.constant(std::move(repeated)), taps, true});
  return by_heads(b, taps);
}

// (query + key of its KV head) / 2 of every head.
Rows ConvolvedAttention::mean_residual(Builder& b, Rows query, Rows key) const {
  const int dim = like.head_dim, each = like.heads / like.kv_heads;
  const Rows keys = b.buffer(query.width), out = b.buffer(query.width);
  for (int i = 0; i < each; ++i)
    b.emit(
        CopyOp{key, keys.part(i * dim, ((like.kv_heads - 1) * each + 1) * dim), like.kv_heads, dim, dim, each * dim});
  b.emit(CombineOp{.in = query, .out = out, .scale = 0.5f});
  b.emit(CombineOp{.in = keys, .out = out, .scale = 0.5f, .add = true});
  return out;
}

Rows ConvolvedAttention::values(Builder& b, Rows x) const {
  const int half = like.kv_heads * like.head_dim / 2;
  const Rows out = b.buffer(2 * half), own = b.matmul(x, {b.matrix("attn_v", half, x.width, like.qkv_bias)}, true);
  const Rows before = row_before(b, b.matmul(x, {b.matrix("attn_v_before", half, x.width)}, true));
  if (like.qkv_bias) b.emit(ConstantOp{b.vector("attn_v_before", {half}, ".bias"), before, true});
  b.emit(CombineOp{.in = own, .out = out.part(0, half)});
  b.emit(CombineOp{.in = before, .out = out.part(half, half)});
  return out;
}

void ConvolvedAttention::prepare(Builder& b, Rows rows, int count) const {
  NormOp norm{.kind = NormOp::Kind::l2, .in = rows, .out = rows, .eps = std::numeric_limits<float>::epsilon()};
  norm.groups = count;
  norm.scale = std::sqrt(static_cast<float>(like.head_dim));
  norm.l2 = L2Form::least;
  b.emit(norm);
}

Rows ConvolvedAttention::operator()(Builder& b, Rows x) const {
  const int q = like.queries(), k = like.kv_heads * like.head_dim, dim = like.head_dim,
            each = like.heads / like.kv_heads;
  const Rows both =
      b.matmul(x, {b.matrix("attn_q", q, x.width, like.qkv_bias), b.matrix("attn_k", k, x.width, like.qkv_bias)}, true);
  const Rows residual = mean_residual(b, both.part(0, q), both.part(q, k)), of_head = b.buffer(k);
  const Rows mixed = convolve(b, both), query = mixed.part(0, q), key = mixed.part(q, k);
  b.emit(CombineOp{.in = residual, .out = query, .add = true});
  for (int i = 0; i < each; ++i) {
    b.emit(CopyOp{residual.part(i * dim, ((like.kv_heads - 1) * each + 1) * dim), of_head, like.kv_heads, dim,
                  each * dim, dim});
    b.emit(CombineOp{.in = of_head, .out = key, .scale = 1.0f / static_cast<float>(each), .add = true});
  }
  prepare(b, query, like.heads);
  prepare(b, key, like.kv_heads);
  b.emit(CombineOp{.in = key, .out = key, .by = b.vector("attn_temperature", {like.kv_heads}, "")});
  for (const auto& [rows, count] : {std::pair{query, like.heads}, {key, like.kv_heads}})
    b.emit(RotateOp{b.rope(*like.rope), rows, count, dim});
  const std::int64_t read_back = like.visibility.rule == Visibility::Rule::all ? 0 : like.visibility.size;
  const FieldId field = b.field({like.kv_heads, dim, dim, false, read_back});
  b.emit(StoreOp{field, key, values(b, x)});
  AttendOp attend{.field = field, .queries = query, .out = b.buffer(q), .heads = like.heads};
  attend.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  attend.visibility = like.visibility;
  b.emit(attend);
  return b.matmul(attend.out, {b.matrix("attn_output", b.spec().hidden, q, like.out_bias)});
}

}  // namespace espalier
