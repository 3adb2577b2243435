#include "model/blocks/recurrent/lightning_attention.h"

#include "model/program/builder.h"

namespace espalier {

Rows LightningAttention::operator()(Builder& b, Rows x) const {
  const int width = heads * head_dim;
  std::vector<MatrixPart> parts(3, b.matrix("attn_qkv", 3 * width, x.width));
  for (int i = 0; i < 3; ++i) {
    parts[static_cast<std::size_t>(i)].rows = {i * head_dim, head_dim, 3 * head_dim};
    parts[static_cast<std::size_t>(i)].outputs = width;
  }
  parts.push_back(b.matrix("attn_gate", width, x.width));
  const Rows all = b.matmul(x, std::move(parts), true), qkv = all.part(0, 3 * width);
  b.emit(ActivateOp{{activation}, qkv, qkv});
  RecurrenceOp op{.queries = qkv.part(0, width),
                  .keys = qkv.part(width, width),
                  .values = qkv.part(2 * width, width),
                  .out = b.buffer(width),
                  .heads = heads,
                  .key_heads = heads,
                  .key_dim = head_dim,
                  .value_dim = head_dim};
  op.constant_decay = b.constant(decays);
  op.state = b.state(static_cast<std::size_t>(width) * static_cast<std::size_t>(head_dim));
  b.emit(op);
  NormOp norm{.in = op.out, .out = op.out, .eps = norm_eps};
  norm.gain = b.vector("attn_sub_norm", {width});
  b.emit(norm);
  b.emit(CombineOp{
      .in = op.out, .out = op.out, .gate = all.part(3 * width, width), .gate_activation = ActivationKind::sigmoid});
  return b.matmul(op.out, {b.matrix("lightning_output", b.spec().hidden, width)});
}

}  // namespace espalier
