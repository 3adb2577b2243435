#include "model/blocks/attention/dynamic_mask_attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

// Norms and turns each head.
void DynamicMaskAttention::prepare(Builder& b, Rows rows, int count, std::string_view norm_role) const {
  NormOp norm{.kind = NormOp::Kind::rms, .in = rows, .out = rows, .eps = like.query_norm.eps, .groups = count};
  b.take_gain(norm, like.query_norm, norm_role, {like.head_dim});
  b.emit(norm);
  if (like.rope) b.emit(RotateOp{b.rope(*like.rope), rows, count, like.head_dim});
}

// Heads with one more dimension.
Rows DynamicMaskAttention::with(Builder& b, Rows rows, Rows last, int count) const {
  const int dim = like.head_dim, wide = dim + 1;
  const Rows out = b.buffer(count * wide);
  b.emit(CopyOp{rows, out, count, dim, dim, wide});
  b.emit(CopyOp{last, out.part(dim, (count - 1) * wide + 1), count, 1, 1, wide});
  return out;
}

// For each KV head the positions of its greatest biases: index keys have all of them, a head's query looks at its own.
MaskId DynamicMaskAttention::choose(Builder& b, Rows biases) const {
  const int heads = like.kv_heads;
  const FieldId field = b.field({1, heads, 0, false, 0});
  b.emit(StoreOp{field, biases, {}});
  std::vector<float> own(static_cast<std::size_t>(heads) * static_cast<std::size_t>(heads), 0.0f);
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) own[h * static_cast<std::size_t>(heads) + h] = 1.0f;
  const Rows queries = b.buffer(heads * heads);
  b.emit(ConstantOp{b.constant(std::move(own)), queries});
  ChooseOp op{.field = field, .queries = queries, .weights = {}, .heads = heads, .kept = kept};
  op.mask = b.mask();
  b.emit(op);
  return op.mask;
}

Rows DynamicMaskAttention::operator()(Builder& b, Rows x) const {
  const int q = like.queries(), k = like.kv_heads * like.head_dim;
  const Rows all =
      b.matmul(x,
               {b.matrix("attn_q", q, x.width, like.qkv_bias), b.matrix("attn_k", k, x.width, like.qkv_bias),
                b.matrix("attn_v", k, x.width, like.qkv_bias)},
               true);
  const Rows query = all.part(0, q), key = all.part(q, k), value = all.part(q + k, k);
  prepare(b, query, like.heads, "attn_q_norm");
  prepare(b, key, like.kv_heads, "attn_k_norm");
  const Rows bias = b.matmul(value, {b.matrix("attn_dt", like.kv_heads, k, like.qkv_bias)}, true);
  b.emit(ActivateOp{{ActivationKind::softplus}, bias, bias});
  b.emit(CombineOp{.in = bias, .out = bias, .by = b.vector("attn_a", {like.kv_heads}, "")});
  b.emit(ActivateOp{{ActivationKind::exp}, bias, bias});
  const float root = std::sqrt(static_cast<float>(like.head_dim));
  const Rows ones = b.buffer(like.heads);  // what the bias is multiplied with before scores are divided by the root
  b.emit(ConstantOp{b.constant(std::vector<float>(static_cast<std::size_t>(like.heads), root)), ones});
  const FieldId field = b.field({like.kv_heads, like.head_dim + 1, like.head_dim, false, 0});
  b.emit(StoreOp{field, with(b, key, bias, like.kv_heads), value});
  AttendOp attend{.field = field, .queries = with(b, query, ones, like.heads), .out = b.buffer(q), .heads = like.heads};
  attend.scale = 1.0f / root;
  attend.mask = choose(b, bias);
  b.emit(attend);
  return b.matmul(attend.out, {b.matrix("attn_output", b.spec().hidden, q, like.out_bias)});
}

}  // namespace espalier
