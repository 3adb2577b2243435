// quantize.h: float32 rows to the quantised types of GGUF, with scales that are searched for.
//
// encode.h gives the bytes of each format's plain rule; here every block gets the scale (and minimum, and scales of
// sub-blocks) that keep the sum of weight * (value - decoded value)^2 small: many scales are tried, each is put right
// by least squares for the codes that it leads to, and what is stored in few bits is chosen together with its
// neighbours.
// Units:   importance: how much an error of each column counts, as the mean square of that input; only ratios matter.
// Deterministic: the same values give the same bytes, whatever instruction set the processor has.
// Threads: pure functions.
// Fails:   never; types outside can_quantize() are the caller's bug and leave `stored` untouched. Values must be finite.
// Source:  weighted least squares by alternation (Lloyd 1982) over a scalar quantiser's step; the formats are GGUF's.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"
#include "tensor/encode.h"

namespace espalier {

constexpr bool can_quantize(DType type) {
  if (can_encode(type)) return true;
  switch (type) {
    case DType::q5_0:
    case DType::q5_1:
    case DType::q2_k:
    case DType::q3_k:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_nl:
    case DType::iq4_xs:
      return true;
    default:
      return false;
  }
}

// Requires: can_quantize(type); row.size() is a whole number of blocks, stored has room for them, and importance has a
// weight of at least 0 for each column, or none.
void quantize_row(DType type, std::span<const float> row, std::span<const float> importance,
                  std::span<std::byte> stored);

}  // namespace espalier
