// windowed.h: what the mixtures of 2026 share whose layers turn only where they have a window.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

// Heads with norms; a window and rotation, or neither. Where the checkpoint has no list of layers: `slides_otherwise`.
Attention window_attention(const Fields& f, int layer, bool slides_otherwise, int window);
Experts with_shared(const Fields& f, int shared_inner);  // Qwen's experts beside a shared one

// HF names of the shared one.
inline const std::vector<Names::Entry> kSharedExpert = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                                        {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                                        {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};

}  // namespace espalier
