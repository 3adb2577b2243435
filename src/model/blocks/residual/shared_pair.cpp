#include "model/blocks/residual/shared_pair.h"

#include "model/program/builder.h"

namespace espalier {

Rows SharedPair::operator()(Builder& b, Rows both) const {
  b.read_tensors_of(source);
  b.set_part(use);
  const Rows mixed = attention(b, b.norm(both, b.spec().norm, "shared_attn_norm"));
  const Rows out = mlp(b, b.norm(mixed, b.spec().norm, "ffn_norm"));
  b.read_tensors_of(-1);
  return out;
}

Layer SharedPair::below(Block mixer) const {
  Layer layer;
  layer.body = [pair = *this, mixer = std::move(mixer)](Builder& b, Rows x) {
    const int width = x.width;
    const Rows both = b.buffer(2 * width), joined = b.copy(x);
    b.emit(CombineOp{.in = x, .out = both.part(0, width)});
    b.emit(CombineOp{.in = b.named().get("embedding"), .out = both.part(width, width)});
    b.add(joined, b.matmul(pair(b, both), {b.matrix("shared_out", width, width)}));
    b.add(x, mixer(b, b.norm(joined, b.spec().norm, "attn_norm")));
    return x;
  };
  return layer;
}

}  // namespace espalier
