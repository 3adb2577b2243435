// plamo_parts.h: what PLaMo 2 and 3 share.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

// Norms around both halves, a fused MLP, their names.
ModelSpec plamo_model(const Fields& f, const std::function<Block(int layer)>& mixer);
Attention plamo_attention(const Fields& f, int layer);

}  // namespace espalier
