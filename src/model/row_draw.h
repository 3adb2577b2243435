// row_draw.h: tokens that a model draws from rows of its logits where these lie, so that the rows need not come to the host: of
// 256 rows of a vocabulary of 128k they are 131 MB a step.
//
// Tokens, probabilities and faults are, bit for bit, those of the CPU (sampling/tiled_row.h, sampling/sampler.h).
// Threads: values. Fails: never; a row's fault is told with its token.
#pragma once

#include <cstdint>
#include <span>

#include "espalier/sampling.h"
#include "espalier/types.h"

namespace espalier {

// A token that is wanted of a row: the likeliest, or one by temperature, filters and noise.
struct RowDraw {
  int row;                                   // of the wanted ones (Batch::logit_rows); several may be drawn of the same
  const SamplingParams* params;              // without penalties and biases, which are not looked at
  double uniform;                            // in [0, 1), of the request's noise
  std::span<const std::uint32_t> mask = {};  // bit i % 32 of word i / 32: token i may come; empty: all

  double sharpness() const { return params->greedy() ? 1 : 1 / params->temperature; }
};

// Why there is no token.
enum class RowFault : std::uint8_t {
  none,
  not_finite,   // a logit that may come is NaN or +infinity
  none_allowed  // no logit that may come is above -infinity
};

// What was drawn.
struct DrawnToken {
  TokenId token;
  RowFault fault;
  double probability;  // in the distribution that it was drawn from; 1 when greedy
  double total;        // sum of exp((x - max) * sharpness) over what may come; not of filtered rows
};

// What a batch's rows of logits are wanted for, where a model draws (Model::draws()).
struct RowDraws {
  std::span<const RowDraw> now;  // drawn by forward()
  std::span<DrawnToken> drawn;   // [now]: where their tokens go
  std::span<const unsigned char>
      unseen;  // [wanted rows]: not 0 where nobody reads the logits: forward() leaves them out
};

}  // namespace espalier
