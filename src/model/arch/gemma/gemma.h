// gemma.h: what the generations of Gemma have in common.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Mlp gemma_mlp(const Fields& f);
Attention gemma_attention(const Fields& f, int layer = -1);
// Embeddings scaled by the root of their width, norms of 1 + w before and behind each half, a capped head.
ModelSpec gemma_decoder(const Fields& f, const std::function<Layer(int)>& layer);

// The last layers read keys and values of the last one of their kind before them; -1: a layer has its own.
int shared_layer(const Fields& f, int layer, int layers, int sharing, const std::function<bool(int)>& slides);

}  // namespace espalier
