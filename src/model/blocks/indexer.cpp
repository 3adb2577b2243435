#include "model/blocks/indexer.h"

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

MaskId Indexer::operator()(Builder& b, Rows x, Rows query_base) const {
  std::vector<MatrixPart> parts = {b.matrix("indexer.attn_k", dim, x.width)};
  if (weighted) parts.push_back(b.matrix("indexer.proj", heads, x.width));
  const Rows of_row = b.matmul(x, std::move(parts), true), key = of_row.part(0, dim);
  norm(b, key, 1, key_norm, "indexer.k_norm");
  rotate(b, key, 1);
  const FieldId field = b.field({1, dim, 0, false, 0});
  b.emit(StoreOp{field, key, {}});

  const Rows base = weighted ? query_base : x;
  const Rows queries =
      b.matmul(base, {b.matrix(weighted ? "indexer.attn_q_b" : "indexer.attn_q", heads * dim, base.width)}, true);
  if (query_norm) norm(b, queries, heads, *query_norm, "indexer.q_norm");
  rotate(b, queries, heads);
  ChooseOp op{field, queries, {}, heads, kept};
  op.mask = b.mask();
  // Each head's score is divided by the root of its width, a sum over heads by that of their number.
  op.scale = 1.0f / std::sqrt(static_cast<float>(weighted ? dim * heads : dim));
  if (weighted) op.weights = of_row.part(dim, heads);
  op.run = run;
  op.local_runs = local_runs;
  b.emit(op);
  return op.mask;
}

}  // namespace espalier
