// step35_attention.h: the attention of Step 3.5 and 3.7, whose heads and rotation differ from layer to layer.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Attention step_attention(const Fields& f, int layer, bool slides);

}  // namespace espalier
