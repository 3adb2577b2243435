#include "model/blocks/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "model/blocks/channels/ranged_linear.h"
#include "model/program/builder.h"

namespace espalier {

bool Attention::is_behind_gate(const Builder& b) const {
  return fused == FusedQkv::behind_gate && b.has("attn_gqkv");
}

MatrixPart Attention::gate_first(Builder& b, int inputs) const {
  return b.matrix("attn_gqkv", heads * values_dim() + queries() + kv_heads * (head_dim + values_dim()), inputs,
                  qkv_bias);
}

std::vector<MatrixPart> Attention::parts(Builder& b, int inputs) const {
  const int q = queries(), k = kv_heads * head_dim, v = keys_are_values ? 0 : kv_heads * values_dim();
  if (is_behind_gate(b)) {
    const MatrixPart all = gate_first(b, inputs);
    const int first = heads * values_dim();
    return {some_rows(all, {.first = first}, q), some_rows(all, {.first = first + q}, k),
            some_rows(all, {.first = first + q + k}, v)};
  }
  const bool in_one = b.is_gguf() ? b.has("attn_qkv") : b.has("attn_qkv") || !b.has("attn_q");
  if (fused != FusedQkv::no && fused != FusedQkv::behind_gate && in_one) {
    const MatrixPart all = b.matrix("attn_qkv", q + k + v, inputs, qkv_bias);
    if (fused == FusedQkv::side_by_side || b.is_gguf())
      return {some_rows(all, {.first = 0}, q), some_rows(all, {.first = q}, k), some_rows(all, {.first = q + k}, v)};
    if (fused == FusedQkv::by_quarter)
      return {some_rows(all, {0, q / 4, 3 * q / 4}, q), some_rows(all, {q / 2, k / 4, 3 * q / 4}, k),
              some_rows(all, {q / 4, v / 4, 3 * q / 4}, v)};
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
  if (ranged)
    return {ranged_product(b, x, "attn_q", queries()),
            ranged_product(b, x, "attn_k", kv_heads * head_dim),
            ranged_product(b, x, "attn_v", kv_heads * values_dim()),
            {}};
  const Rows all = b.matmul(x, parts(b, x.width), true);
  if (clip > 0 && !clip_behind_norm) b.emit(ClipOp{all, all, -clip, clip});
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
  const Rows parts_of[] = {p.query, p.key, p.value};
  for (std::size_t i = 0; i < adapters.size(); ++i) adapters[i].add(b, x, parts_of[i]);
  return p;
}

// The gains of heads out of a tensor each.
VectorId Attention::gains(Builder& b, int count, std::string_view role) const {
  std::vector<float> all;
  for (int h = 0; h < count; ++h) {
    const auto& own = b.values(b.vector_of(b.name(role) + "." + std::to_string(h) + ".weight", {head_dim}));
    all.insert(all.end(), own.begin(), own.end());
  }
  return b.constant(std::move(all));
}

void Attention::norm_heads(Builder& b, Rows rows, int count, std::string_view role) const {
  if (head_norm == HeadNorm::none || (head_norm_may_lack && b.is_gguf() && !b.has(role))) return;
  NormOp op{.kind = query_norm.kind, .in = rows, .out = rows, .eps = query_norm.eps};
  Shape shape = {rows.width};
  if (head_norm == HeadNorm::each) shape = {head_dim};
  if (head_norm == HeadNorm::each_own || head_norm == HeadNorm::each_apart) shape = {count, head_dim};
  if (head_norm != HeadNorm::whole) op.groups = count;
  if (head_norm == HeadNorm::each_apart && !b.is_gguf())
    op.gain = gains(b, count, role);
  else
    b.take_gain(op, query_norm, role, std::move(shape));
  b.emit(op);
}

void Attention::rotate(Builder& b, Rows rows, int count) const {
  if (rope) b.emit(RotateOp{b.rope(*rope), rows, count, head_dim, 0, pairs});
  if (next_rope) b.emit(RotateOp{b.rope(*next_rope), rows, count, head_dim, rope->dims(), pairs});
}

void Attention::prepare(Builder& b, Rows rows, int count, std::string_view norm_role) const {
  if (!norm_behind_rope) norm_heads(b, rows, count, norm_role);
  if (clip > 0 && clip_behind_norm) b.emit(ClipOp{rows, rows, -clip, clip});
  rotate(b, rows, count);
  if (norm_behind_rope) norm_heads(b, rows, count, norm_role);
}

FieldId Attention::store(Builder& b, const Projected& p) const {
  if (reads_layer >= 0) return b.field_of_layer(reads_layer);
  const bool whole = visibility.rule == Visibility::Rule::all || b.spec().both_ways;
  const std::int64_t read_back = whole ? 0 : visibility.size;
  const FieldId field = b.field({kv_heads, head_dim, values_dim(), false, read_back});
  b.emit(StoreOp{field, p.key, p.value});
  b.set_field_of_layer(field);
  return field;
}

int DistanceBuckets::of(int distance) const {
  const int half = count / 2, exact = half / 2, far = std::abs(distance);
  const int first = distance > 0 ? half : 0;
  if (far < exact) return first + far;
  // In float32, as the checkpoints' own code: bounds of buckets lie where its rounding puts them.
  const float steps = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(farthest) / exact)) *
                      static_cast<float>(half - exact);
  return first + std::min(exact + static_cast<int>(steps), half - 1);
}

VectorId Attention::distance_biases(Builder& b) const {
  b.read_tensors_of(Builder::whole_model);
  const std::vector<float> learned = b.values(b.vector("attn_rel_b", {buckets->count, heads}));
  b.read_tensors_of(-1);
  const int reach = buckets->reach();
  std::vector<float> table;
  for (int h = 0; h < heads; ++h)
    for (int d = -reach; d < reach + 16; ++d)
      table.push_back(learned[static_cast<std::size_t>(buckets->of(d)) * static_cast<std::size_t>(heads) +
                              static_cast<std::size_t>(h)]);
  return b.constant(std::move(table));
}

Rows Attention::gated(Builder& b, Rows out, Rows x, Rows in_query) const {
  if (gate == Gate::none) return out;
  const int width = gate == Gate::own_by_head ? heads : heads * values_dim();
  Rows by = in_query;
  if (!by) {
    MatrixPart part = is_behind_gate(b) ? some_rows(gate_first(b, x.width), {.first = 0}, width)
                                        : b.matrix("attn_gate", width, x.width);
    if (gate_bias_by_head) {
      part.bias = b.name("attn_gate_bias");
      part.bias_shape = {heads};
      part.bias_rows = width / heads;
    }
    by = b.matmul(x, {std::move(part)});
  }
  b.emit(CombineOp{.in = out, .out = out, .gate = by, .gate_activation = gate_activation});
  return out;
}

Rows Attention::operator()(Builder& b, Rows x) const {
  const Projected p = project(b, x);
  if (value_norm && p.value) b.emit(NormOp{.in = p.value, .out = p.value, .eps = value_norm->eps, .groups = kv_heads});
  if (clip > 0 && clip_behind_norm && p.value) b.emit(ClipOp{p.value, p.value, -clip, clip});
  if (value_scale != 1.0f && p.value) b.scale(p.value, value_scale);
  prepare(b, p.query, heads, "attn_q_norm");
  if (query_scale.beta != 0.0f || query_scale.power != 0.0f) {
    ScaleByPositionOp op = query_scale;
    op.heads = p.query;
    b.emit(op);
  }
  if (p.key) prepare(b, p.key, kv_heads, "attn_k_norm");
  AttendOp attend{.field = store(b, p), .queries = p.query, .out = b.buffer(heads * values_dim()), .heads = heads};
  attend.scale = scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  attend.visibility = visibility;
  attend.around = b.spec().both_ways ? AttendOp::Around::near : around;
  if (indexer && (!b.is_gguf() || b.has("indexer.k_norm"))) attend.mask = (*indexer)(b, x, x);
  attend.cap = cap;
  if (sinks && (!b.is_gguf() || b.has("attn_sinks")))
    attend.sinks = b.vector("attn_sinks", {heads}, b.is_gguf() ? ".weight" : "");
  if (!slopes.empty()) attend.slopes = b.constant(slopes);
  if (buckets) {
    attend.biases = distance_biases(b);
    attend.bias_reach = buckets->reach();
  }
  b.emit(attend);
  Rows out = gated(b, attend.out, x, p.gate);
  if (out_norm) out = b.norm(out, b.spec().norm, "attn_sub_norm");
  if (ranged) return ranged_product(b, out, "attn_output", b.spec().hidden);
  MatrixPart last = b.matrix("attn_output", b.spec().hidden, out.width, out_bias);
  if (!out_bias_name.empty()) {
    last.bias = b.name(out_bias_name);
    last.bias_shape = {b.spec().hidden};
  }
  return b.matmul(out, {std::move(last)});
}

}  // namespace espalier
