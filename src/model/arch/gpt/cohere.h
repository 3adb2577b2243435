// cohere.h: what the generations of Cohere have in common.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Attention cohere_attention(const Fields& f);  // neighbours turn together
// LayerNorms without bias, a tied head whose logits are scaled.
ModelSpec cohere_decoder(const Fields& f, const std::function<Layer(int)>& layer);

}  // namespace espalier
