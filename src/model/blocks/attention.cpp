#include "model/blocks/attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {
namespace {

MatrixPart some_rows(MatrixPart of, RowOrder rows, int outputs) {
  of.rows = rows;
  of.outputs = outputs;
  return of;
}

}  // namespace

std::vector<MatrixPart> Attention::parts(Builder& b, int inputs) const {
  const int q = queries(), k = kv_heads * head_dim, v = keys_are_values ? 0 : kv_heads * values_dim();
  if (fused != FusedQkv::no && (!b.is_gguf() || b.has("attn_qkv"))) {
    const MatrixPart all = b.matrix("attn_qkv", q + k + v, inputs, qkv_bias);
    if (fused == FusedQkv::side_by_side || b.is_gguf())
      return {some_rows(all, {.first = 0}, q), some_rows(all, {.first = q}, k), some_rows(all, {.first = q + k}, v)};
    const int of_group = heads / kv_heads * head_dim, period = of_group + head_dim + values_dim();
    return {some_rows(all, {0, of_group, period}, q), some_rows(all, {of_group, head_dim, period}, k),
            some_rows(all, {of_group + head_dim, values_dim(), period}, v)};
  }
  std::vector<MatrixPart> out;
  if (gate == Gate::in_query) {
    const MatrixPart both = b.matrix("attn_q", 2 * q, inputs, qkv_bias);
    out = {some_rows(both, {0, head_dim, 2 * head_dim}, q), some_rows(both, {head_dim, head_dim, 2 * head_dim}, q)};
  } else {
    out.push_back(b.matrix("attn_q", q, inputs, qkv_bias));
  }
  if (reads_layer >= 0) return out;
  out.push_back(b.matrix("attn_k", k, inputs, qkv_bias));
  if (pairs_in_gguf && b.is_gguf()) out.front().rows.pairs = out.back().rows.pairs = head_dim;
  if (v > 0) out.push_back(b.matrix("attn_v", v, inputs, qkv_bias));
  return out;
}

Attention::Projected Attention::project(Builder& b, Rows x) const {
  const Rows all = b.matmul(x, parts(b, x.width), true);
  Projected p;
  int at = 0;
  const auto next = [&](int width) {
    at += width;
    return all.part(at - width, width);
  };
  p.query = next(queries());
  if (gate == Gate::in_query) p.gate = next(queries());
  if (reads_layer >= 0) return p;
  p.key = next(kv_heads * head_dim);
  p.value = keys_are_values ? b.copy(p.key) : next(kv_heads * values_dim());
  return p;
}

void Attention::norm_heads(Builder& b, Rows rows, int count, std::string_view role) const {
  if (head_norm == HeadNorm::none) return;
  NormOp op{.kind = query_norm.kind, .in = rows, .out = rows, .eps = query_norm.eps};
  Shape shape = {rows.width};
  if (head_norm == HeadNorm::each) shape = {head_dim};
  if (head_norm == HeadNorm::each_own) shape = {count, head_dim};
  if (head_norm != HeadNorm::whole) op.groups = count;
  b.take_gain(op, query_norm, role, std::move(shape));
  b.emit(op);
}

void Attention::rotate(Builder& b, Rows rows, int count) const {
  if (rope) b.emit(RotateOp{b.rope(*rope), rows, count, head_dim, 0, pairs});
}

void Attention::prepare(Builder& b, Rows rows, int count, std::string_view norm_role) const {
  if (!norm_behind_rope) norm_heads(b, rows, count, norm_role);
  rotate(b, rows, count);
  if (norm_behind_rope) norm_heads(b, rows, count, norm_role);
}

FieldId Attention::store(Builder& b, const Projected& p) const {
  if (reads_layer >= 0) return b.field_of_layer(reads_layer);
  const std::int64_t read_back = visibility.rule == Visibility::Rule::all ? 0 : visibility.size;
  const FieldId field = b.field({kv_heads, head_dim, values_dim(), false, read_back});
  b.emit(StoreOp{field, p.key, p.value});
  b.set_field_of_layer(field);
  return field;
}

Rows Attention::gated(Builder& b, Rows out, Rows x, Rows in_query) const {
  if (gate == Gate::none) return out;
  const int width = gate == Gate::own_by_head ? heads : heads * values_dim();
  const Rows by = in_query ? in_query : b.matmul(x, {b.matrix("attn_gate", width, x.width)});
  b.emit(CombineOp{.in = out, .out = out, .gate = by, .gate_activation = gate_activation});
  return out;
}

Rows Attention::operator()(Builder& b, Rows x) const {
  const Projected p = project(b, x);
  if (value_norm && p.value)
    b.emit(NormOp{.in = p.value, .out = p.value, .eps = value_norm->eps, .groups = kv_heads});
  if (value_scale != 1.0f && p.value) b.scale(p.value, value_scale);
  prepare(b, p.query, heads, "attn_q_norm");
  if (query_scale.beta != 0.0f) {
    ScaleByPositionOp op = query_scale;
    op.heads = p.query;
    b.emit(op);
  }
  if (p.key) prepare(b, p.key, kv_heads, "attn_k_norm");
  AttendOp attend{.field = store(b, p), .queries = p.query, .out = b.buffer(heads * values_dim()), .heads = heads};
  attend.scale = scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  attend.visibility = visibility;
  attend.cap = cap;
  if (sinks && (!b.is_gguf() || b.has("attn_sinks"))) attend.sinks = b.vector("attn_sinks", {heads}, b.is_gguf() ? ".weight" : "");
  if (!slopes.empty()) attend.slopes = b.constant(slopes);
  b.emit(attend);
  const Rows out = gated(b, attend.out, x, p.gate);
  return b.matmul(out, {b.matrix("attn_output", b.spec().hidden, out.width, out_bias)});
}

}  // namespace espalier
