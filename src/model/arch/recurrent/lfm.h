// lfm.h: what the generations of LFM have in common.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Mlp lfm_mlp(const Fields& f);
ModelSpec lfm_decoder(const Fields& f, const std::function<Layer(int layer)>& layer);  // its norms, head and names

}  // namespace espalier
