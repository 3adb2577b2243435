// column_scales.h: factors by which columns of matrices are multiplied, and what stands before them divided, so that less
// is lost when they are rounded: what the model computes stays the same.
//
// Where a norm alone feeds some matrices its gain takes the division; where a gated MLP's `up` feeds `down`, the rows of
// `up` do. int4: powers of the inputs' size (AWQ); int8 activations: inputs and weights meet half way (SmoothQuant). The
// power is the one that leaves the least error, and may be 0: no factors.
// Threads: one caller; the team computes. Fails: never.
// Source:  AWQ (arXiv 2306.00978), SmoothQuant (arXiv 2211.10438).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/threads/compute_team.h"
#include "quantize/calibration.h"
#include "quantize/target.h"
#include "tensor/quantize/groups.h"

namespace espalier::quantizer {

// By names of tensors in the file.
struct ColumnScales {
  std::map<std::string, std::vector<float>, std::less<>> columns;  // multiplied to the columns of a matrix
  std::map<std::string, std::vector<float>, std::less<>> rows;     // its rows are divided by these
  struct Gain {
    std::vector<float> by;
    bool one_plus = false;  // what is stored is one less
  };
  std::map<std::string, Gain, std::less<>> gains;  // vectors that are divided
};

struct ScaleWish {
  const ModelSpec& spec;
  const Weights& weights;
  const Calibration& measured;
  const Target& target;
  int group;  // inputs that share a scale; 0: all of a row
};

ColumnScales choose_column_scales(const ScaleWish& wish, ComputeTeam& team);

}  // namespace espalier::quantizer
