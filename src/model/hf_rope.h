// hf_rope.h: how config.json spells rotary position embedding. Internal to the configuration reader.
// Threads: pure function. Fails: bad_request naming the field; the caller adds the file.
#pragma once

#include "base/json_fields.h"
#include "model/config.h"

namespace espalier {

// Sets rope_theta, rope_dims, rope_scaling and context_length.
// Requires: heads, hidden, head_dim (0: not given) and max_positions are set.
Result<> read_hf_rope(const Json& root, ModelConfig& config);

}  // namespace espalier
