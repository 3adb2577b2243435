// kimi_delta.h: what models with Kimi delta attention declare alike.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {

DeltaRule kimi_delta(const Fields& f);  // sizes; a decay for each channel
// Whether a layer has latent attention in its place; `otherwise` where the checkpoint has no list.
bool kimi_attends(const Fields& f, int layer, bool otherwise);
// HF names of its tensors below `stem` ("self_attn").
std::vector<Names::Entry> delta_names(const std::string& stem);

}  // namespace espalier
