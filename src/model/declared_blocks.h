// declared_blocks.h: the blocks that a configuration's architecture has declared; for tests of readers.
#pragma once

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"
#include "model/config/config.h"

namespace espalier::testing {

// Requires: the layer's first half is an attention.
inline const Attention& attention_of(const Result<ModelConfig>& config, std::size_t layer = 0) {
  return *config->spec.layers.at(layer).halves.front().block.target<Attention>();
}
// Requires: the first layer's last half is an MLP.
inline const Mlp& mlp_of(const Result<ModelConfig>& config) {
  return *config->spec.layers.front().halves.back().block.target<Mlp>();
}

}  // namespace espalier::testing
