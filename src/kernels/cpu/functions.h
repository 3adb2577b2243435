// functions.h: activations, gates, weighted sums, norms and rotations of rows of floats.
//
// Every entry works on one row, or a part of one: `n` floats side by side, any n >= 0. Element-wise entries compute
// each element alone, so a row may be split wherever the caller likes. Entries with a sum inside (norms, softmax) take
// the whole row that is summed, in one fixed order. `y` may be one of the inputs (the same address), or not touch them.
// Accuracy: activations are within 1e-6 of their value, relatively, mostly within 2e-7; the tails (below 0.01) of
// gelu_tanh, gelu_quick and silu of a slope within 2e-5: exponents round. Below 1e-30 it may be zero. NaN gives NaN.
// Threads: any; an entry touches only what its arguments name. Fails: never. kernels/plain/functions.h judges them.
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
};

// y = (clamp(up, -up_limit, up_limit) + up_offset) * activation(min(gate, gate_limit)). gpt-oss and MiniMax-M3: silu of
// slope 1.702, limits 7, offset 1.
struct GateForm {
  Activation activation;
  float gate_limit = std::numeric_limits<float>::infinity(), up_limit = std::numeric_limits<float>::infinity();
  float up_offset = 0.0f;
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

// One row of `groups` groups of `group` values each, every group normed by itself.
struct GatedNormTask {
  const float* x;            // [groups * group]
  const float* z;            // [groups * group]
  const float* gain;         // of the first group; null: 1
  std::int64_t gain_stride;  // floats from one group's gain to the next: 0 where all share it, `group` where none do
  float* y;                  // [groups * group]; may be x or z
  std::int64_t group;
  std::int64_t groups;
  float eps;
  GatedNormForm form;
};

// How the decay of a recurrent state comes from what a layer computes for a token; rate >= 0 is exp(A_log).
enum class DecayForm : std::uint8_t {
  softplus,  // exp(-rate * softplus(x + bias)): gated delta nets, Kimi delta attention
  bounded,   // exp(bound * sigmoid(rate * (x + bias))), bound < 0: Kimi delta attention with a lower bound
  step,      // exp(-rate * (x + bias)): Mamba-2, whose x is a time step
};

// One row of `heads` heads of `per_head` values each.
struct DecayTask {
  const float* x;     // [heads * per_head]
  const float* bias;  // [heads * per_head], or null
  const float* rate;  // [heads]
  float* y;           // [heads * per_head]: factors in 0..1; may be x
  std::int64_t heads;
  std::int64_t per_head;  // 1 where a head has one decay, its key size where each channel has its own
  DecayForm form;
  float bound;  // of DecayForm::bounded
};

struct FunctionKernels {
  void (*activate)(const Activation&, const float* x, float* y, std::int64_t n);
  void (*gate)(const GateForm&, const float* gate, const float* up, float* y, std::int64_t n);

  void (*scale)(float a, const float* x, float* y, std::int64_t n);                               // y = a * x
  void (*affine)(float a, float c, const float* x, float* y, std::int64_t n);                     // y = a * x + c
  void (*add)(const float* x, const float* z, float* y, std::int64_t n);                          // y = x + z
  void (*mul)(const float* x, const float* z, float* y, std::int64_t n);                          // y = x * z
  void (*add_scaled)(float a, const float* x, float* y, std::int64_t n);                          // y += a * x
  void (*add_product)(const float* a, const float* x, float* y, std::int64_t n);                  // y += a * x, a [n]
  void (*blend)(float a, const float* x, float b, float* y, std::int64_t n);                      // y = a * x + b * y
  void (*interpolate)(const float* a, const float* x, const float* z, float* y, std::int64_t n);  // y = x + a * (z - x)
  void (*clamp)(float least, float most, const float* x, float* y, std::int64_t n);
  void (*soft_cap)(float cap, const float* x, float* y, std::int64_t n);  // y = cap * tanh(x / cap)

  // y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * gain + bias; gain and bias may be null
  void (*layer_norm)(const float* x, const float* gain, const float* bias, float eps, float* y, std::int64_t n);
  void (*l2_norm)(L2Form, const float* x, float eps, float* y, std::int64_t n);
  void (*gated_norm)(const GatedNormTask&);
  void (*softmax)(const float* x, float* y, std::int64_t n);  // exp(x - max) / sum; n >= 1

  void (*decay)(const DecayTask&);
  // y = clamp(softplus(x + bias), least, most), Mamba's time steps; bias [n] or null
  void (*time_step)(const float* x, const float* bias, float least, float most, float* y, std::int64_t n);

  // Rotates the pairs (2 i, 2 i + 1) of one head: cosines and sines of `half` angles each.
  void (*rotate_pairs)(float* head, const float* cosines, const float* sines, int half);
};

}  // namespace espalier
