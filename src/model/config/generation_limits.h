// generation_limits.h: what a checkpoint's proposals for sampling may be, whichever file makes them.
// Threads: constants. Fails: never.
#pragma once

#include "base/json/json_fields.h"
#include "model/config/config.h"

namespace espalier {

// Ranges of GenerationDefaults.
struct GenerationLimits {
  static constexpr NumberRange temperature{.low = 0, .high = 100};
  static constexpr NumberRange share{.low = 0, .high = 1};  // top_p, min_p
  static constexpr NumberRange repetition_penalty{.low = 0, .high = 10, .above_low = true};
  static constexpr IntegerRange top_k{-1, ConfigLimits::vocabulary};
};

}  // namespace espalier
