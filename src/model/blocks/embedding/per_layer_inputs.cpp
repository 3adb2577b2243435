#include "model/blocks/embedding/per_layer_inputs.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

Rows PerLayerInputs::enter(Builder& b, Rows x) const {
  const auto layers = static_cast<int>(b.spec().layers.size());
  const int all = layers * width, rows = b.outputs_of("per_layer_token_embd", vocabulary);
  const float half = 1.0f / std::sqrt(2.0f);
  const Rows inputs = b.buffer(all);
  b.emit(LookUpOp{.table = b.table(b.name("per_layer_token_embd") + ".weight", {rows, all}),
                  .out = inputs,
                  .scale = std::sqrt(static_cast<float>(width)) * half,
                  .instead = b.spec().takes_given ? b.spec().given_counts_as : -1});
  const Rows projected = b.matmul(x, {b.matrix("per_layer_model_proj", all, x.width)});
  // The projection counts 1 / sqrt(hidden), which only eps notices.
  NormOp op{.in = projected,
            .out = inputs,
            .eps = b.spec().norm.eps * static_cast<float>(x.width),
            .groups = layers,
            .scale = half,
            .add = true};
  b.take_gain(op, b.spec().norm, "per_layer_proj_norm", {width});
  b.emit(op);
  b.named().put(kRows, inputs);
  return x;
}

Rows PerLayerInputs::operator()(Builder& b, Rows x) const {
  const Rows inputs = b.named().get(kRows).part(b.layer() * width, width);
  const Rows gate = b.matmul(x, {b.matrix("inp_gate", width, x.width)});
  b.emit(GateOp{{activation}, gate, inputs, gate});
  return b.norm(b.matmul(gate, {b.matrix("proj", x.width, width)}), b.spec().norm, "post_norm");
}

}  // namespace espalier
