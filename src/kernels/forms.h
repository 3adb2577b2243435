// forms.h: activations, gates, norms and decays as values: which function, with which parameters. Models say by these
// what they compute, kernels compute it (cpu/functions.h).
#pragma once

#include <cstdint>
#include <limits>

namespace espalier {

// What is applied to each element of a row; x is the element, a.xxx a field of Activation.
enum class ActivationKind : std::uint8_t {
  identity,
  silu,         // x * sigmoid(a.slope * x)
  gelu_quick,   // x * sigmoid(1.702 x)
  gelu_tanh,    // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
  gelu_erf,     // x * (1 + erf(x / sqrt(2))) / 2
  relu,         // max(x, 0)
  relu2,        // max(x, 0)^2
  sigmoid,      // 1 / (1 + exp(-x))
  log_sigmoid,  // log(sigmoid(x))
  tanh,
  softplus,       // log(1 + exp(x)); above 20 that is x in float32, as torch has it
  sqrt_softplus,  // its square root
  exp,
  minus_exp,  // -exp(x)
  elu,        // x above 0, else a.negative * (exp(x) - 1)
  mish,       // x * tanh(softplus(x))
  xielu,      // above 0: a.positive x^2 + a.linear x, else a.negative (exp(min(x, a.least)) - 1 - x) + a.linear x
};

// A function of one element with its parameters (https://arxiv.org/abs/2411.13010 for xielu: its `positive` is
// softplus(alpha_p), its `negative` beta + softplus(alpha_n), its `linear` beta, its `least` eps).
struct Activation {
  ActivationKind kind = ActivationKind::silu;
  float slope = 1.0f;
  float positive = 1.0f, negative = 1.0f, linear = 0.0f, least = 0.0f;
  bool operator==(const Activation&) const = default;
};

// y = (clamp(up, -up_limit, up_limit) + up_offset) * activation(min(gate, gate_limit)). gpt-oss and MiniMax-M3: silu of
// slope 1.702, limits 7, offset 1.
struct GateForm {
  Activation activation;
  float gate_limit = std::numeric_limits<float>::infinity(), up_limit = std::numeric_limits<float>::infinity();
  float up_offset = 0.0f;
  bool operator==(const GateForm&) const = default;
};

// How small vectors are kept from dividing by zero.
enum class L2Form : std::uint8_t {
  added,  // x / sqrt(sum(x^2) + eps), of delta rules
  least,  // x / max(sqrt(sum(x^2)), eps), torch's normalize
};

// Where the gate z of a gated RMS norm stands; norm(v) = v / sqrt(mean(v^2) + eps) over a group.
enum class GatedNormForm : std::uint8_t {
  norm_then_silu,     // norm(x) * gain * silu(z): Qwen3-Next
  norm_then_sigmoid,  // norm(x) * gain * sigmoid(z): Kimi Linear
  silu_then_norm,     // norm(x * silu(z)) * gain: Mamba-2
};

// How the decay of a recurrent state comes from what a layer computes for a token; rate >= 0 is exp(A_log).
enum class DecayForm : std::uint8_t {
  softplus,  // exp(-rate * softplus(x + bias)): gated delta nets, Kimi delta attention
  bounded,   // exp(bound * sigmoid(rate * (x + bias))), bound < 0: Kimi delta attention with a lower bound
  step,      // exp(-rate * (x + bias)): Mamba-2, whose x is a time step
};

}  // namespace espalier
