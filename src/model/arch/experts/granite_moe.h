// granite_moe.h: what Granite's mixtures have in common.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

// Granite's multipliers, and behind each mixer experts, an MLP that every token passes, or both.
ModelSpec granite_experts(const Fields& f, const std::function<Block(int layer)>& mixer);

}  // namespace espalier
