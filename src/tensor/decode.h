// decode.h: stored rows to float32, bit for bit as the formats define them; the judge of every kernel.
//
// Integers and f64 are rounded to the nearest float, booleans become 0 or 1.
// Threads: pure functions. Fails: never; sizes are the caller's promise.
// Source:  the GGUF format's reference decoder (in float32, no fused multiply-add); SHA-256 of whole tensors in
//          tests/data/goldens/gguf/*/tensors.json.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace espalier {

// Decodes `out.size()` values of one row of type `type` from `stored`.
// Requires: out.size() is a whole number of blocks and stored holds at least that many.
void decode_row(DType type, std::span<const std::byte> stored, std::span<float> out);

// The whole tensor, row after row; of one whose rows are made (Tensor::maker), with its inputs in their own order.
// [rows * columns]
std::vector<float> decode(const Tensor& tensor);
// One row of such a tensor; `out` has a value for each input. Of a turned one: a row of [.., outputs, inputs].
void decode_made_row(const Tensor& tensor, std::int64_t row, std::span<float> out);

}  // namespace espalier
