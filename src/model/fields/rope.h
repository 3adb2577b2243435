// rope.h: rotary position embedding's frequencies as a checkpoint's fields describe them, under each kind of scaling.
//
// Both styles of config.json (rope_theta, rope_scaling; rope_parameters, also one for each layer type), GGUF keys.
// Computed in double and rounded to float32 once, as transformers holds them.
// Fails: by Fields::problem().
// Source: RoFormer; YaRN (arXiv 2309.00071); LongRoPE (arXiv 2402.13753); llama3 scaling as published with Llama 3.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/fields/fields.h"
#include "model/program/rope_spec.h"

namespace espalier {

// What an architecture says about one of its tables of angles.
struct RopeWish {
  int head_dim = 0;                  // of which the checkpoint may turn a part
  double theta = 10000;              // unless the checkpoint has one
  std::string_view layer_type = {};  // where parameters differ between types of layers
  double part = 0;                   // of the head, unless the checkpoint says; 0: all, whatever config.json says
  int dims = 0;                      // turned dimensions, whatever the checkpoint says
  std::string_view kind = {};        // of scaling, unless the checkpoint says
  bool truncated = true;             // YaRN's ramp begins and ends at whole dimensions, unless the checkpoint says
  bool scaled = true;                // false: the scaling is for other layers
  bool own_theta = false;            // theta counts, not the checkpoint's
};
RopeSpec rope_of(const Fields& f, const RopeWish& wish);

// 0.1 * mscale * ln(factor) + 1, by which YaRN and DeepSeek's scores grow.
double yarn_magnitude(double factor, double mscale = 1.0);

// The longest text in tokens that the checkpoint is made for, its scaling considered; `otherwise` where it does not say.
std::int64_t context_length_of(const Fields& f, std::int64_t otherwise = 2048);

}  // namespace espalier
