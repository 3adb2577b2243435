#include "model/blocks/attention/indexer.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

void Indexer::rotate(Builder& b, Rows rows, int count) const {
  if (rope) b.emit(RotateOp{b.rope(*rope), rows, count, dim, rotate_from, pairs});
}

void Indexer::norm(Builder& b, Rows rows, int count, const Norm& norm, std::string_view role) {
  NormOp op{.kind = norm.kind, .in = rows, .out = rows, .eps = norm.eps, .groups = count};
  b.take_gain(op, norm, role, {rows.width / count});
  b.emit(op);
}

// The mean of each window's keys, at its last position; weighed where there are gates.
Rows Indexer::mean_keys(Builder& b, Rows keys, Rows gates) const {
  if (every == 1) return keys;
  CompressOp op{.values = keys, .gates = gates, .out = b.buffer(dim), .every = every};
  if (gates) op.bias = b.vector("indexer.ape", {every, dim}, "");
  op.state = b.state(3 * static_cast<std::size_t>(dim));
  b.emit(op);
  return op.out;
}

// Norms, turns and keeps keys; that of a window stands where the window begins.
FieldId Indexer::store(Builder& b, Rows keys) const {
  norm(b, keys, 1, key_norm, "indexer.k_norm");
  if (rope) {
    RotateOp turn{b.rope(*rope), keys, 1, dim, rotate_from, pairs};
    turn.shift = 1 - every;
    b.emit(turn);
  }
  const FieldId field = b.field({1, dim, 0, false, 0});
  b.emit(StoreOp{field, keys, {}});
  return field;
}

// Keys are normed one by one, and do not turn.
FieldId Indexer::store_means(Builder& b, Rows keys, Rows gates) const {
  norm(b, keys, 1, key_norm, "indexer.k_norm");
  const FieldId field = b.field({1, dim, 0, false, 0});
  b.emit(StoreOp{field, mean_keys(b, keys, gates), {}});
  return field;
}

MaskId Indexer::choose_windows(Builder& b, Rows x) const {
  std::vector<MatrixPart> parts = {b.matrix("indexer.attn_qk", (heads + 1) * dim, x.width)};
  if (b.is_gguf()) parts = {b.matrix("indexer.attn_q", heads * dim, x.width), b.matrix("indexer.attn_k", dim, x.width)};
  const Rows all = b.matmul(x, std::move(parts), true);
  const Rows queries = all.part(0, heads * dim);
  const FieldId field = store(b, mean_keys(b, all.part(heads * dim, dim)));
  if (query_norm) norm(b, queries, heads, *query_norm, "indexer.q_norm");
  rotate(b, queries, heads);
  ChooseOp op{.field = field, .queries = queries, .weights = {}, .heads = heads, .kept = kept};
  op.constant_weights = b.constant(std::vector<float>(static_cast<std::size_t>(heads), 1.0f));
  op.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  op.run = op.every = every;
  op.mask = b.mask();
  b.emit(op);
  return op.mask;
}

MaskId Indexer::operator()(Builder& b, Rows x, Rows query_base) const {
  if (summed) return choose_windows(b, x);
  std::vector<MatrixPart> parts = {b.matrix("indexer.attn_k", dim, x.width)};
  if (weighted) parts.push_back(b.matrix("indexer.proj", heads, x.width));
  if (learned_means) {
    parts.push_back(b.matrix("indexer.gate", dim, x.width));
    parts.back().tensor = b.name("indexer.gate");
  }
  const Rows of_row = b.matmul(x, std::move(parts), true), key = of_row.part(0, dim);
  const FieldId field = learned_means ? store_means(b, key, of_row.part(dim + heads, dim)) : store(b, key);

  const Rows base = weighted ? query_base : x;
  const Rows queries =
      b.matmul(base, {b.matrix(weighted ? "indexer.attn_q_b" : "indexer.attn_q", heads * dim, base.width)}, true);
  if (query_norm) norm(b, queries, heads, *query_norm, "indexer.q_norm");
  rotate(b, queries, heads);
  ChooseOp op{.field = field, .queries = queries, .weights = {}, .heads = heads, .kept = kept};
  op.mask = b.mask();
  // Each head's score is divided by the root of its width, a sum over heads by that of their number.
  op.scale = 1.0f / std::sqrt(static_cast<float>(weighted ? dim * heads : dim));
  if (weighted) op.weights = of_row.part(dim, heads);
  op.run = learned_means ? every : run;
  op.every = learned_means ? every : 1;
  op.local_runs = local_runs;
  b.emit(op);
  return op.mask;
}

}  // namespace espalier
