// rope.h: rotary position embedding's frequencies under each kind of scaling.
//
// Computed in double and rounded to float32 once, as transformers holds them.
// Source: RoFormer; YaRN (arXiv 2309.00071); llama3 scaling as published with Llama 3.1.
#pragma once

#include "model/config.h"
#include "model/decoder_spec.h"

namespace espalier {

bool can_compute(const RopeScaling& scaling);
RopeSpec rope(const ModelConfig& config);  // Requires: can_compute(config.rope_scaling)

}  // namespace espalier
