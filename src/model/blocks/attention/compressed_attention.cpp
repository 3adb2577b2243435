#include "model/blocks/attention/compressed_attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

void CompressedAttention::normed(Builder& b, Rows rows, std::string_view role, int count) const {
  NormOp op{.in = rows, .out = rows, .eps = norm.eps, .groups = count};
  if (!role.empty()) b.take_gain(op, norm, role, {rows.width / count});
  b.emit(op);
}

// The last dimensions of each head turn.
RotateOp CompressedAttention::rotation(Builder& b, Rows rows, int count) const {
  const int width = rows.width / count;
  return {b.rope(rope), rows, count, width, width - rope.dims(), true};
}

std::vector<MatrixPart> CompressedAttention::parts(Builder& b, const Compressor& c, int inputs) const {
  const int outputs = (overlapping ? 2 : 1) * c.width;
  return {b.matrix(c.name + "_kv", outputs, inputs), b.matrix(c.name + "_gate", outputs, inputs)};
}

Rows CompressedAttention::compress(Builder& b, const Compressor& c, Rows values_and_gates) const {
  const int each = values_and_gates.width / 2;
  CompressOp op{values_and_gates.part(0, each), values_and_gates.part(each, each), b.buffer(c.width)};
  op.every = every;
  op.overlapping = overlapping;
  op.bias = b.vector(c.name + "_ape", {every, each}, b.is_gguf() ? ".weight" : "");
  op.state = b.state(static_cast<std::size_t>(overlapping ? 6 : 3) * static_cast<std::size_t>(c.width));
  b.emit(op);
  normed(b, op.out, c.name + "_norm", 1);
  RotateOp turn = rotation(b, op.out, 1);
  turn.shift = 1 - every;  // an entry stands where its window begins
  b.emit(turn);
  return op.out;
}

MaskId CompressedAttention::choose(Builder& b, Rows x, Rows query_base) const {
  const Compressor keys{"indexer_compressor", index_dim};
  std::vector<MatrixPart> all = parts(b, keys, x.width);
  all.push_back(b.matrix("indexer.proj", index_heads, x.width));
  const Rows of_row = b.matmul(x, std::move(all), true);
  const int entries = of_row.width - index_heads;
  const FieldId field = b.field({1, index_dim, 0, false, 0});
  b.emit(StoreOp{field, compress(b, keys, of_row.part(0, entries)), {}});
  const Rows queries =
      b.matmul(query_base, {b.matrix("indexer.attn_q_b", index_heads * index_dim, query_base.width)}, true);
  b.emit(rotation(b, queries, index_heads));
  ChooseOp op{.field = field,
              .queries = queries,
              .weights = of_row.part(entries, index_heads),
              .heads = index_heads,
              .kept = index_kept};
  op.scale = 1.0f / std::sqrt(static_cast<float>(index_dim * index_heads));
  op.every = every;
  op.mask = b.mask();
  b.emit(op);
  return op.mask;
}

// The rotation taken back; then each group of heads to fewer values, and all of these to the row.
Rows CompressedAttention::output(Builder& b, Rows out) const {
  RotateOp back = rotation(b, out, heads);
  back.back = true;
  b.emit(back);
  const int inputs = heads * head_dim / groups;
  GroupedMatmulOp op{-1, groups, inputs, group_rank, out, b.buffer(groups * group_rank)};
  MatrixPart part = b.matrix("attn_output_a", groups * group_rank, inputs);
  part.outputs = group_rank;
  for (int g = 0; g < groups; ++g) {
    part.rows.first = std::int64_t{g} * group_rank;
    const MatrixId id = b.need({{part}, inputs});
    if (g == 0) op.first = id;
  }
  b.emit(op);
  return b.matmul(op.out, {b.matrix("attn_output_b", b.spec().hidden, op.out.width)});
}

Rows CompressedAttention::operator()(Builder& b, Rows x) const {
  const Compressor entries{"attn_compressor", head_dim};
  std::vector<MatrixPart> all = {b.matrix("attn_q_a", query_rank, x.width), b.matrix("attn_kv", head_dim, x.width)};
  if (every > 0)
    for (MatrixPart& part : parts(b, entries, x.width)) all.push_back(std::move(part));
  const Rows of_row = b.matmul(x, std::move(all), true);
  const Rows base = of_row.part(0, query_rank), kept = of_row.part(query_rank, head_dim);
  normed(b, base, "attn_q_a_norm", 1);
  normed(b, kept, "attn_kv_a_norm", 1);
  b.emit(rotation(b, kept, 1));
  AttendOp attend{};
  attend.field = b.field({1, head_dim, head_dim, true, window});
  attend.heads = heads;
  b.emit(StoreOp{attend.field, kept, {}});
  if (every > 0) {
    const int from = query_rank + head_dim;
    attend.then = b.field({1, head_dim, head_dim, true, 0});
    attend.then_every = every;
    b.emit(StoreOp{attend.then, compress(b, entries, of_row.part(from, of_row.width - from)), {}});
    if (index_heads > 0) attend.then_mask = choose(b, x, base);
  }
  attend.queries = b.matmul(base, {b.matrix("attn_q_b", heads * head_dim, query_rank)}, true);
  normed(b, attend.queries, "", heads);
  b.emit(rotation(b, attend.queries, heads));
  attend.out = b.buffer(heads * head_dim);
  attend.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  attend.visibility = Visibility::window(window);
  attend.sinks = b.vector("attn_sinks", {heads}, b.is_gguf() ? ".weight" : "");
  b.emit(attend);
  return output(b, attend.out);
}

}  // namespace espalier
