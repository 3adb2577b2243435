// difference.h: how far one model's distributions of the next token are from another's, position by position.
//
// Units:   nats: of p (first) and q (second) the sum of p log(p / q), and -log of what the text's next token had.
// Threads: pure. Fails: never.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/types.h"

namespace espalier::quantizer {

// One position.
struct PositionDifference {
  double divergence = 0, first_loss = 0, second_loss = 0;
  bool same_best = false;
};

// Logits, or logarithms of probabilities, of the whole vocabulary. next: the token that the text has there.
PositionDifference difference_at(std::span<const float> first, std::span<const float> second, TokenId next);

// Of many positions.
struct Difference {
  std::int64_t positions = 0;
  double divergence = 0, divergence_99 = 0, divergence_most = 0;  // mean, of 99 in 100 at most, greatest
  double first_perplexity = 0, second_perplexity = 0;
  double same_best = 0;  // share of positions whose best token is the same
};

Difference summed(std::span<const PositionDifference> positions);

}  // namespace espalier::quantizer
