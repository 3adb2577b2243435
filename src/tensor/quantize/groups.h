// groups.h: whole numbers of a few bits with a scale, and maybe a zero point, for a run of values: what checkpoints in
// compressed-tensors' layout hold.
//
// A value is scale * (code - zero), codes are -2^(bits-1) .. 2^(bits-1) - 1. Scales are rounded to the type in which they
// are stored before codes are chosen, so nothing is lost by storing them.
// Deterministic. Threads: pure functions. Fails: never; values must be finite.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace espalier {

// How a run of values is stored.
struct GroupForm {
  int bits = 4;  // 2 .. 8
  bool symmetric = true;
  DType scale_type = DType::bf16;  // bf16, f16 or f32
  int low() const { return -(1 << (bits - 1)); }
  int high() const { return (1 << (bits - 1)) - 1; }
};

// Of one run.
struct GroupScale {
  float scale = 0;
  int zero = 0;
};

// Scale and zero with the least sum of weight * error^2. weights: one for each value, or none.
GroupScale fit_group(std::span<const float> values, std::span<const float> weights, const GroupForm& form);

int code_of(float value, GroupScale scale, const GroupForm& form);
inline float value_of(int code, GroupScale scale) {
  return scale.scale * static_cast<float>(code - scale.zero);
}

// The value that is stored.
float rounded_to(DType type, float value);

}  // namespace espalier
