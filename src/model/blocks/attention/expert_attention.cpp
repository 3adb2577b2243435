#include "model/blocks/attention/expert_attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

// [queries of KV head 0 of each expert | of KV head 1 ... | keys | values | router's logits]
Rows ExpertAttention::project(Builder& b, Rows x) const {
  MatrixPart of_all{b.name("attn_q_exps") + ".weight", {router.count, width(), x.width}, head_dim};
  std::vector<MatrixPart> parts;
  for (int head = 0; head < kv_heads; ++head)
    for (int expert = 0; expert < router.count; ++expert) {
      of_all.rows.first = std::int64_t{expert} * width() + head * head_dim;
      parts.push_back(of_all);
    }
  parts.push_back(b.matrix("attn_kv", 2 * width(), x.width));
  parts.push_back(b.matrix("attn_moe_gate_inp", router.count, x.width));
  return b.matmul(x, std::move(parts), true);
}

// The bias comes with every expert's output: their weights add up to 1.
Rows ExpertAttention::weigh(Builder& b, Rows of_experts, Rows logits) const {
  const int hidden = b.spec().hidden;
  MatrixPart part{b.name("attn_output_exps") + ".weight", {router.count, hidden, width()}, hidden};
  part.bias = b.name("attn_moe_bias");
  part.bias_shape = {hidden};
  part.same_bias = true;
  GroupedMatmulOp op{-1, router.count, width(), hidden, of_experts, b.buffer(router.count * hidden)};
  for (int expert = 0; expert < router.count; ++expert) {
    part.rows.first = std::int64_t{expert} * hidden;
    const MatrixId id = b.need({{part}, width()});
    if (expert == 0) op.first = id;
  }
  b.emit(op);
  RouteOp route{.how = router, .logits = logits, .out = b.buffer(2 * router.chosen)};
  b.emit(route);
  const Rows weights = b.buffer(router.count), out = b.buffer(hidden);
  b.emit(SpreadWeightsOp{route.out, weights, router.chosen});
  b.emit(MixOp{.in = op.out, .out = out, .coefficients = weights, .inputs = router.count, .outputs = 1});
  return out;
}

Rows ExpertAttention::operator()(Builder& b, Rows x) const {
  const int heads = kv_heads * router.count, queries = heads * head_dim;
  const Rows all = project(b, x), query = all.part(0, queries), key = all.part(queries, width());
  b.emit(RotateOp{b.rope(rope), query, heads, head_dim});
  b.emit(RotateOp{b.rope(rope), key, kv_heads, head_dim});
  AttendOp attend{.field = b.field({kv_heads, head_dim, head_dim, false, 0}),
                  .queries = query,
                  .out = b.buffer(queries),
                  .heads = heads};
  b.emit(StoreOp{attend.field, key, all.part(queries + width(), width())});
  attend.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  b.emit(attend);
  const Rows by_expert = b.buffer(queries);
  for (int expert = 0; expert < router.count; ++expert)
    b.emit(CopyOp{attend.out.part(expert * head_dim, queries - expert * head_dim),
                  by_expert.part(expert * width(), width()), kv_heads, head_dim, router.count * head_dim, head_dim});
  return weigh(b, by_expert, all.part(queries + 2 * width(), router.count));
}

}  // namespace espalier
