// olmo.h: what the generations of OLMo have in common.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Attention olmo_attention(const Fields& f);  // queries and keys normed over their whole width, or clipped

// HF names of the norms behind both halves.
inline const std::vector<Names::Entry> kOlmoPostNorms = {{"post_attention_norm", "post_attention_layernorm"},
                                                         {"post_ffw_norm", "post_feedforward_layernorm"}};

}  // namespace espalier
