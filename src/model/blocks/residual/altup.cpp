#include "model/blocks/residual/altup.h"

#include <fmt/format.h>

#include "model/program/builder.h"

namespace espalier {

// HF checkpoints have a tensor for each stream, GGUF files one for all.
MatrixPart AltUp::projection(Builder& b, std::string_view role, int which, int width) const {
  MatrixPart part;
  part.outputs = width;
  part.tensor = b.is_gguf() ? b.name(role) + ".weight" : fmt::format("{}.{}.weight", b.name(role), which);
  part.shape = {width, width};
  if (b.is_gguf()) {
    part.shape = {streams - 1, width, width};
    part.rows.first = std::int64_t{which} * width;
  }
  return part;
}

// The other streams are projections, as large as the first one.
Rows AltUp::enter(Builder& b, Rows x) const {
  const Rows all = b.buffer(streams * x.width);
  b.emit(CombineOp{.in = x, .out = stream(all, 0)});
  for (int i = 1; i < streams; ++i)
    b.emit(ScaleToOp{b.matmul(x, {projection(b, "altup_proj", i - 1, x.width)}), x, stream(all, i), 1e-5f});
  return all;
}

Rows AltUp::leave(Builder& b, Rows all) const {
  const Rows first = stream(all, 0), sum = b.copy(first);
  for (int i = 1; i < streams; ++i) {
    const Rows back = b.matmul(stream(all, i), {projection(b, "altup_unembd_proj", i - 1, first.width)});
    b.emit(ScaleToOp{back, first, back, 1e-5f});
    b.add(sum, back);
  }
  b.scale(sum, 1.0f / static_cast<float>(streams));
  return sum;
}

Rows AltUp::modalities(Builder& b, Rows x) const {
  const Rows normed = b.buffer(x.width);
  NormOp op{.in = x, .out = normed, .eps = b.spec().norm.eps, .scale = 1.0f / static_cast<float>(x.width)};
  b.take_gain(op, b.spec().norm, "altup_router_norm", {x.width});
  b.emit(op);
  return b.activate(b.matmul(normed, {b.matrix("altup_router", streams, x.width)}, true), {ActivationKind::tanh});
}

Rows AltUp::predict(Builder& b, Rows all) const {
  const Rows by = modalities(b, stream(all, active));
  const Rows coefficients = b.matmul(by, {b.matrix("altup_predict_coef", streams * streams, streams)}, true);
  const Rows predicted = b.copy(all);
  b.emit(MixOp{all, predicted, coefficients, streams, streams, true});
  return predicted;
}

void AltUp::correct(Builder& b, Rows predicted, Rows activated) const {
  const Rows by = modalities(b, activated);
  const Rows coefficients = b.matmul(by, {b.matrix("altup_correct_coef", streams, streams)}, true);
  const Rows innovation = b.copy(activated);
  b.emit(CombineOp{.in = stream(predicted, active), .out = innovation, .scale = -1.0f, .add = true});
  b.emit(MixOp{innovation, predicted, coefficients, 1, streams, true});
  for (int i = 0; i < streams; ++i) b.add(stream(predicted, i), innovation);
}

}  // namespace espalier
