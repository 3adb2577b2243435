#include "model/blocks/recurrent/decay_rates.h"

#include <cmath>

namespace espalier {

VectorId decay_rates(Builder& b, Shape shape) {
  const VectorId id = b.vector("ssm_a", std::move(shape), "");
  for (float& rate : b.values(id)) rate = b.is_gguf() ? -rate : static_cast<float>(std::exp(static_cast<double>(rate)));
  return id;
}

}  // namespace espalier
