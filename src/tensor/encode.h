// encode.h: float32 rows to a stored type, by the plain rule of each format (no search for better scales).
//
// Deterministic: the same values give the same bytes on every machine, those of the GGUF reference quantiser.
// Threads: pure functions.
// Fails:   encode_row cannot; an infinity or NaN makes a block whose values are not finite either or are clamped, never
//          undefined behaviour. Types outside can_encode() are the caller's bug and leave `stored` untouched.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace espalier {

constexpr bool can_encode(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_1:
      return true;
    default:
      return false;
  }
}

// Requires: can_encode(type); row.size() is a whole number of blocks and stored has room for them.
void encode_row(DType type, std::span<const float> row, std::span<std::byte> stored);

// `values` row after row, `columns` each.
// Requires: can_encode(type), columns a whole number of blocks, values.size() a multiple of columns.
std::vector<std::byte> encode(DType type, std::span<const float> values, std::int64_t columns);

}  // namespace espalier
