#include "model/blocks/attention/latent_attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

void LatentAttention::normed(Builder& b, Rows rows, std::string_view role, float factor) const {
  NormOp op{.kind = norm.kind, .in = rows, .out = rows, .eps = norm.eps, .scale = factor};
  b.take_gain(op, norm, role, {rows.width});
  b.emit(op);
}

// Both short vectors (or the queries themselves) in one product, normed, the shared key turned.
LatentAttention::Projected LatentAttention::project(Builder& b, Rows x) const {
  const bool low_rank = query_rank > 0;
  const int first = low_rank ? query_rank : heads * (plain + rotated);
  const Rows all = b.matmul(x,
                            {b.matrix(low_rank ? "attn_q_a" : "attn_q", first, x.width, bias && low_rank),
                             b.matrix("attn_kv_a_mqa", width(), x.width, bias)},
                            true);
  Projected p{all.part(0, first), all.part(first, width()), {}};
  if (gate == Gate::in_query) {
    p.both = b.buffer(2 * first);
    for (int i = 0; i < 2; ++i) b.emit(CombineOp{.in = p.first, .out = p.both.part(i * first, first)});
    p.first = p.both.part(0, first);
  }
  normed(b, p.kept.part(0, rank), "attn_kv_a_norm", latent_factor);
  if (rope && rotated > 0) b.emit(RotateOp{b.rope(*rope), p.kept, 1, width(), rank, pairs});
  if (low_rank) normed(b, p.first, "attn_q_a_norm", 1.0f);
  return p;
}

std::pair<Rows, Rows> LatentAttention::queries(Builder& b, const Projected& p, Rows x) const {
  const int of_head = plain + rotated, all = heads * of_head;
  if (gate == Gate::in_query) {
    MatrixPart query = b.matrix("attn_q_b", heads * (of_head + value), 2 * query_rank), by = query;
    query.rows = {0, of_head, of_head + value};
    by.rows = {of_head, value, of_head + value};
    query.outputs = all;
    by.outputs = heads * value;
    const Rows out = b.matmul(p.both, {std::move(query), std::move(by)}, true);
    return {out.part(0, all), out.part(all, heads * value)};
  }
  const Rows query = query_rank == 0 ? p.first : b.matmul(p.first, {b.matrix("attn_q_b", all, query_rank)}, true);
  if (gate == Gate::none) return {query, Rows{}};
  return {query, b.matmul(x, {b.matrix("attn_gate", gate == Gate::by_head ? heads : heads * value, x.width)})};
}

// attn_kv_b has, head by head, the rows that make its keys and those that make its values. The first ones, their inputs
// and outputs exchanged, take queries to the kept vector's space; new GGUF files keep them so.
MatrixPart LatentAttention::key_part(Builder& b, int head) const {
  MatrixPart part;
  part.outputs = rank;
  if (b.has("attn_k_b")) {
    part.tensor = b.name("attn_k_b") + ".weight";
    part.shape = {heads, rank, plain};
    part.rows.first = std::int64_t{head} * rank;
    return part;
  }
  part.tensor = b.name("attn_kv_b") + ".weight";
  part.shape = {heads * (plain + value), rank};
  part.transposed = true;
  part.first_input = std::int64_t{head} * (plain + value);
  return part;
}

MatrixPart LatentAttention::value_part(Builder& b, int head) const {
  MatrixPart part;
  part.outputs = value;
  if (b.has("attn_v_b")) {
    part.tensor = b.name("attn_v_b") + ".weight";
    part.shape = {heads, value, rank};
    part.rows.first = std::int64_t{head} * value;
    return part;
  }
  part.tensor = b.name("attn_kv_b") + ".weight";
  part.shape = {heads * (plain + value), rank};
  part.rows.first = std::int64_t{head} * (plain + value) + plain;
  return part;
}

// [plain | rotated] of each head -> [rank | rotated].
Rows LatentAttention::absorb_keys(Builder& b, Rows query) const {
  const int from = plain + rotated, to = width();
  const Rows out = b.buffer(heads * to);
  if (rotated > 0) {
    b.emit(CopyOp{query.part(plain, query.width - plain), out.part(rank, out.width - rank), heads, rotated, from, to});
    if (rope) b.emit(RotateOp{b.rope(*rope), out, heads, to, rank, pairs});
  }
  GroupedMatmulOp op{-1, heads, from, to, query, out};
  for (int head = 0; head < heads; ++head) {
    const MatrixId id = b.need({{key_part(b, head)}, plain});
    if (head == 0) op.first = id;
  }
  b.emit(op);
  if (query_factor != 1.0f) b.scale(out, query_factor);
  if (query_scale.beta != 0.0f) {
    ScaleByPositionOp scaled = query_scale;
    scaled.heads = out;
    b.emit(scaled);
  }
  return out;
}

Rows LatentAttention::expand_values(Builder& b, Rows out) const {
  GroupedMatmulOp op{-1, heads, rank, value, out, b.buffer(heads * value)};
  for (int head = 0; head < heads; ++head) {
    const MatrixId id = b.need({{value_part(b, head)}, rank});
    if (head == 0) op.first = id;
  }
  b.emit(op);
  return op.out;
}

Rows LatentAttention::operator()(Builder& b, Rows x) const {
  const Projected p = project(b, x);
  const FieldId field = b.field({1, width(), rank, true, 0});
  b.emit(StoreOp{field, p.kept, {}});
  AttendOp attend{};
  attend.field = field;
  attend.heads = heads;
  if (indexer) attend.mask = (*indexer)(b, x, p.first);
  if (shares_choice) attend.mask = b.last_mask();
  const auto [query, by] = queries(b, p, x);
  attend.queries = absorb_keys(b, query);
  attend.out = b.buffer(heads * rank);
  attend.scale = scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(plain + rotated));
  if (sinks) attend.sinks = b.vector("attn_sinks", {heads}, b.is_gguf() ? ".weight" : "");
  b.emit(attend);
  const Rows out = expand_values(b, attend.out);
  if (by) b.emit(CombineOp{.in = out, .out = out, .gate = by, .gate_activation = ActivationKind::sigmoid});
  return b.matmul(out, {b.matrix("attn_output", b.spec().hidden, out.width, bias)});
}

}  // namespace espalier
