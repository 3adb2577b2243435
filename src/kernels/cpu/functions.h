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

#include "kernels/forms.h"

namespace espalier {

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

// The kernels for rows of floats of one instruction set.
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
