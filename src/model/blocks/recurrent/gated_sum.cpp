#include "model/blocks/recurrent/gated_sum.h"

#include <cmath>

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {

// Each head's columns times its own matrix, stored [heads][inputs][outputs].
Rows GatedSum::by_heads(Builder& b, Rows in, std::string_view role) const {
  const int each = width / heads;
  GroupedMatmulOp op{0, heads, each, each, in, b.buffer(width)};
  for (int h = 0; h < heads; ++h) {
    MatrixPart part{b.name(role) + "_weight", {heads, each, each}, each};
    part.transposed = true;
    part.first_input = part.first_bias = std::int64_t{h} * each;
    part.bias = b.name(role) + "_bias";
    part.bias_shape = {heads, each};
    const MatrixId id = b.need({{std::move(part)}, each});
    if (h == 0) op.first = id;
  }
  b.emit(op);
  return op.out;
}

// 8 * softplus of what is stored.
VectorId GatedSum::rates(Builder& b) const {
  const VectorId id = b.vector("sum_rate", {width}, "");
  for (float& rate : b.values(id)) {
    const auto stored = static_cast<double>(rate);
    rate = static_cast<float>(8 * (stored > 20 ? stored : std::log1p(std::exp(stored))));
  }
  return id;
}

Rows GatedSum::operator()(Builder& b, Rows x) const {
  const Rows both =
      b.matmul(x, {b.matrix("sum_gate", width, x.width, true), b.matrix("sum_in", width, x.width, true)}, true);
  const Rows gate = both.part(0, width), in = both.part(width, width);
  b.emit(ActivateOp{{activation}, gate, gate});
  CausalConv{{{"sum_conv1d", width}}, taps, true, ActivationKind::identity}(b, in);
  const Rows enters = by_heads(b, in, "sum_input_gate"), decay = by_heads(b, in, "sum_decay_gate");
  b.emit(ActivateOp{{ActivationKind::sigmoid}, decay, decay});
  b.emit(DecayOp{.in = decay, .out = decay, .rate = rates(b), .heads = width, .form = DecayForm::step});
  b.emit(CombineOp{.in = in, .out = in, .gate = enters, .gate_activation = ActivationKind::sigmoid});
  b.emit(ComplementOp{decay, in});
  b.emit(FadingSumOp{in, decay, in, b.state(static_cast<std::size_t>(width))});
  b.emit(CombineOp{.in = in, .out = in, .gate = gate});
  return b.matmul(in, {b.matrix("sum_out", b.spec().hidden, width, true)});
}

}  // namespace espalier
