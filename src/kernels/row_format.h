// row_format.h: the forms of a row of activations that products read; kernels/activations.h has their layouts.
// Threads: constants. Fails: never.
#pragma once

#include <cstdint>

namespace espalier {

// floats; or what convert_rows() makes of them (kernels/matmul/matmul.h).
enum class RowFormat : std::uint8_t { f32, bf16, int8, int16 };

}  // namespace espalier
