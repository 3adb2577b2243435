#include "model/blocks/residual/gated_residual.h"

#include "model/program/builder.h"

namespace espalier {

Rows GatedResidual::enter(Builder& b, Rows x) const {
  const Rows out = b.buffer(streams * x.width);
  for (int i = 0; i < streams; ++i) b.emit(CombineOp{.in = x, .out = out.part(i * x.width, x.width)});
  return out;
}

GatedResidual::Mixed GatedResidual::mix(Builder& b, Rows x, const Mixer& mixer) const {
  const int width = x.width / streams;
  const float share = 1.0f / static_cast<float>(streams);
  const Rows normed = b.buffer(x.width);
  NormOp op{.kind = norm.kind, .in = x, .out = normed, .eps = norm.eps, .groups = streams};
  b.take_gain(op, norm, mixer.norm, {x.width});
  b.emit(op);
  std::vector<MatrixPart> parts = {b.matrix(mixer.down, rank, x.width)};
  if (!mixer.weights.empty()) parts.push_back(b.matrix(mixer.weights, streams, x.width));
  const Rows all = b.matmul(normed, std::move(parts), true), low = all.part(0, rank);
  b.scale(all, share);
  b.emit(ActivateOp{{ActivationKind::silu}, low, low});
  const Rows gates = b.matmul(low, {b.matrix(mixer.up, x.width, rank)}, true);
  Mixed out{b.buffer(width), mixer.weights.empty() ? Rows{} : all.part(rank, streams)};
  for (int i = 0; i < streams; ++i)
    b.emit(CombineOp{.in = normed.part(i * width, width),
                     .out = out.input,
                     .scale = share,
                     .gate = gates.part(i * width, width),
                     .gate_activation = ActivationKind::sigmoid,
                     .add = i > 0});
  if (out.weights) {
    b.emit(ActivateOp{{ActivationKind::sigmoid}, out.weights, out.weights});
    b.scale(out.weights, 2.0f);
  }
  return out;
}

Rows GatedResidual::around(Builder& b, Rows x, const Mixer& mixer, const Block& block) const {
  const Mixed mixed = mix(b, x, mixer);
  const Rows out = block(b, mixed.input);
  b.emit(MixOp{.in = out, .out = x, .coefficients = mixed.weights, .inputs = 1, .outputs = streams, .add = true});
  return x;
}

Rows GatedResidual::leave(Builder& b, Rows x, const Mixer& mixer) const {
  return mix(b, x, mixer).input;
}

}  // namespace espalier
