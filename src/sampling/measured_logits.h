// measured_logits.h: a row of logits to measure sampling with.
#pragma once

#include <random>
#include <vector>

namespace espalier {

// peaked: a bulk of unlikely tokens and some dozen likely ones, as a trained model gives; flat: the hardest case for
// top-p, half of the vocabulary belongs to the nucleus.  [vocabulary]
inline std::vector<float> measured_logits(int vocabulary, bool peaked) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> bulk(0, peaked ? 2.0f : 1.0f);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (float& x : logits) x = bulk(random);
  for (int i = 0; peaked && i < 60; ++i) logits[random() % logits.size()] = 10 + 0.15f * static_cast<float>(i);
  return logits;
}

}  // namespace espalier
