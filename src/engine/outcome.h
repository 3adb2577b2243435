// outcome.h: what one row of logits became.
#pragma once

#include <optional>

#include "engine/engine_core.h"

namespace espalier {

struct EngineCore::Outcome {
  TokenId token = 0;  // the chosen one, or the prompt's next
  double logprob = 0;
  Alternatives alternatives;
  std::optional<Error> error;  // ends this sequence alone
};

}  // namespace espalier
