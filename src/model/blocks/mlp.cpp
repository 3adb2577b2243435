#include "model/blocks/mlp.h"

#include <cmath>

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
  if (!gated) {
    const Rows wide = b.matmul(x, {b.matrix(up, inner, x.width, bias)});
    return b.activate(wide, xielu ? learned(b) : how.activation);
  }
  if (fused && (!b.is_gguf() || !b.has(gate))) {
    // GGUF files keep such a tensor under the name of `up`.
    MatrixPart first = b.matrix(b.is_gguf() ? up : gate_up, 2 * inner, x.width, bias), second = first;
    first.outputs = second.outputs = inner;
    second.rows.first = inner;
    return b.gated(x, first, second, how);
  }
  if (cut_off) {
    const Rows both = b.matmul(x, {b.matrix(gate, inner, x.width, bias), b.matrix(up, inner, x.width, bias)});
    const Rows first = both.part(0, inner);
    b.emit(CutOffOp{first, first, *cut_off});
    b.emit(GateOp{how, first, both.part(inner, inner), first});
    return first;
  }
  return b.gated(x, b.matrix(gate, inner, x.width, bias), b.matrix(up, inner, x.width, bias), how);
}

Rows Mlp::operator()(Builder& b, Rows x) const {
  const Rows out = inside(b, x);
  return b.matmul(out, {b.matrix(down, b.spec().hidden, inner, bias)});
}

}  // namespace espalier
