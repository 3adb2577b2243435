// zamba_parts.h: what both generations of Zamba share: layers that share a pair of attention and MLP.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"
#include "model/blocks/residual/shared_pair.h"

namespace espalier {

Attention zamba_attention(const Fields& f, int head_dim);
// Layers of which is_hybrid says whether they have a pair: one of so many, in turn. stem: of the pair's HF names.
ModelSpec zamba_model(const Fields& f, const Block& mixer, SharedPair pair, int pairs, const std::string& stem,
                      const std::function<bool(int layer)>& is_hybrid);

}  // namespace espalier
