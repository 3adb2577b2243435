#include "model/blocks/residual/hyper_connections.h"

#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr std::string_view kNoEnding;

}  // namespace

Rows HyperConnections::enter(Builder& b, Rows x) const {
  const Rows out = b.buffer(streams * x.width);
  for (int i = 0; i < streams; ++i) b.emit(CombineOp{.in = x, .out = out.part(i * x.width, x.width)});
  return out;
}

// [before | after | mixing] of all streams, of which the first `parts` are asked for.
Rows HyperConnections::gates(Builder& b, Rows x, const Joint& roles, int parts) const {
  const int width = streams * (parts > 2 ? 2 + streams : parts);
  const std::string_view ending = b.is_gguf() ? ".weight" : kNoEnding;
  const Rows normed = b.buffer(x.width);
  b.emit(NormOp{.in = x, .out = normed, .eps = norm_eps});
  MatrixPart fn = b.matrix(roles.fn, width, x.width);
  fn.tensor = b.name(roles.fn).append(ending);
  StreamGatesOp op{.in = b.matmul(normed, {std::move(fn)}), .out = b.buffer(width)};
  op.scale = b.vector(roles.scale, {parts}, ending);
  op.base = b.vector(roles.base, {width}, ending);
  op.streams = streams;
  op.parts = parts;
  op.rounds = rounds;
  op.eps = eps;
  op.after_factor = after_factor;
  op.after_eps = after_eps;
  b.emit(op);
  return op.out;
}

Rows HyperConnections::collapse(Builder& b, Rows x, Rows gates) const {
  const Rows out = b.buffer(x.width / streams);
  b.emit(MixOp{.in = x, .out = out, .coefficients = gates.part(0, streams), .inputs = streams, .outputs = 1});
  return out;
}

void HyperConnections::run(Builder& b, Rows x, const Joint& joint) const {
  const Rows coefficients = gates(b, x, joint, rounds > 0 ? 3 : 2);
  const Rows out = joint.block(b, b.norm(collapse(b, x, coefficients), b.spec().norm, joint.norm));
  if (rounds > 0)
    b.emit(MixOp{.in = x,
                 .out = x,
                 .coefficients = coefficients.part(2 * streams, streams * streams),
                 .inputs = streams,
                 .outputs = streams});
  b.emit(MixOp{.in = out,
               .out = x,
               .coefficients = coefficients.part(streams, streams),
               .inputs = 1,
               .outputs = streams,
               .add = true});
}

Layer HyperConnections::layer(std::vector<Joint> joints) const {
  Layer layer;
  layer.body = [self = *this, joints = std::move(joints)](Builder& b, Rows x) {
    for (const Joint& joint : joints) self.run(b, x, joint);
    return x;
  };
  return layer;
}

Rows HyperConnections::leave(Builder& b, Rows x) const {
  return collapse(b, x, gates(b, x, {{}, {}, "output_hc_fn", "output_hc_base", "output_hc_scale"}, 1));
}

}  // namespace espalier
