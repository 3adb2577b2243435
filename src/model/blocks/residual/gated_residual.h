// gated_residual.h: several residual streams, of which each block reads a gated mean and to which its output is added
// with a weight for each (Qwen4).
//
// The streams are normed side by side; a product through few dimensions gives the gate of every value, another one the
// weights of the streams. Roles: those of a Mixer. Keeps nothing. Source: transformers' Qwen4ExpTextGatedResidual.
#pragma once

#include <string_view>

#include "model/spec.h"

namespace espalier {

// How blocks read the streams and write them.
struct GatedResidual {
  int streams = 0, rank = 0;
  Norm norm;  // of each stream, its gain as wide as all

  // Roles of one mixer; weights: of the streams that take a block's output, empty for the last mixer.
  struct Mixer {
    std::string_view norm, down, up, weights = {};
  };

  Rows enter(Builder& builder, Rows x) const;  // every stream begins as the embedding
  // x of all streams -> x after the block.
  Rows around(Builder& builder, Rows x, const Mixer& mixer, const Block& block) const;
  Rows leave(Builder& builder, Rows x, const Mixer& mixer) const;

 private:
  struct Mixed {
    Rows input, weights;
  };
  Mixed mix(Builder& b, Rows x, const Mixer& mixer) const;
};

}  // namespace espalier
