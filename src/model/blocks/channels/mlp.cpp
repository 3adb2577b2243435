#include "model/blocks/channels/mlp.h"

#include <cmath>

#include "model/blocks/channels/ranged_linear.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// xIELU with the shape that the layer has learned. Source: arXiv 2411.13010.
Activation learned(Builder& b) {
  const auto number = [&](const char* role) { return b.values(b.vector(role, {1}, "")).front(); };
  const auto softplus = [](float x) { return static_cast<float>(std::log1p(std::exp(static_cast<double>(x)))); };
  Activation a{ActivationKind::xielu};
  a.linear = number("xielu_beta");
  a.positive = softplus(number("xielu_alpha_p"));
  a.negative = a.linear + softplus(number("xielu_alpha_n"));
  a.least = number("xielu_eps");
  return a;
}

}  // namespace

Rows Mlp::inside(Builder& b, Rows x) const {
  if (ranged) {
    const Rows by = ranged_product(b, x, gate, inner), value = ranged_product(b, x, up, inner);
    b.emit(GateOp{how, by, value, by});
    return by;
  }
  if (!gated) {
    const Rows wide = b.matmul(x, {b.matrix(up, inner, x.width, bias)});
    return b.activate(wide, xielu ? learned(b) : how.activation);
  }
  if (fused && !b.has(gate)) {
    // GGUF files keep such a tensor under the name of `up`.
    MatrixPart first = b.matrix(b.is_gguf() ? up : gate_up, 2 * inner, x.width, bias), second = first;
    if (adapter) {
      const Rows both = b.matmul(x, {std::move(first)}), gates = both.part(0, inner);
      adapter->add(b, x, both);
      b.emit(GateOp{how, gates, both.part(inner, inner), gates});
      return gates;
    }
    first.outputs = second.outputs = inner;
    (up_first ? first : second).rows.first = inner;
    return b.gated(x, first, second, how);
  }
  MatrixPart by = b.matrix(gate, inner, x.width, bias), value = b.matrix(up, inner, x.width, bias);
  if (!cut_off && gate_scale == 1.0f) return b.gated(x, std::move(by), std::move(value), how);
  const Rows both = b.matmul(x, {std::move(by), std::move(value)}), first = both.part(0, inner);
  if (gate_scale != 1.0f) b.scale(first, gate_scale);
  if (cut_off) b.emit(CutOffOp{first, first, *cut_off});
  b.emit(GateOp{how, first, both.part(inner, inner), first});
  return first;
}

Rows Mlp::operator()(Builder& b, Rows x) const {
  Rows out = inside(b, x);
  if (inner_norm) out = b.norm(out, b.spec().norm, "ffn_sub_norm");
  if (ranged) return ranged_product(b, out, down, b.spec().hidden);
  return b.matmul(out, {b.matrix(down, b.spec().hidden, inner, bias || down_bias)});
}

}  // namespace espalier
