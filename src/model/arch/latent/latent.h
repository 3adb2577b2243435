// latent.h: what the models with DeepSeek's latent attention declare alike.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/experts/routed.h"
#include "model/arch/parts.h"
#include "model/blocks/attention/latent_attention.h"

namespace espalier {

// Sizes, scale and rotation; YaRN's scores grow by the square of its magnitude over all dimensions.
LatentAttention latent_attention(const Fields& f, double theta = 10000);

float rms_eps(const Fields& f);

}  // namespace espalier
