// multiply_whole.h: all kernels of a type of whole numbers, and which of them takes a product.
//
// Threads: any. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_few.h"
#include "kernels/cuda/products/multiply_floats.h"
#include "kernels/cuda/products/multiply_launches.h"
#include "kernels/cuda/products/multiply_many.h"

namespace espalier::cuda {

template <class Format>
void multiply_whole(simt::Stream stream, const MultiplyWork& work, bool two_bytes) {
  if (work.usual_rows() <= few::kMostRows)
    few::launch<Format>(stream, work, two_bytes);
  else
    many::launch<Format>(stream, work, two_bytes);
}

template <class Format>
MultiplyLaunches launches_of_format() {
  return {floats::launch<floats::Decoded<Format>>,
          [](simt::Stream stream, const MultiplyWork& work) { multiply_whole<Format>(stream, work, false); },
          [](simt::Stream stream, const MultiplyWork& work) { multiply_whole<Format>(stream, work, true); }};
}

// Of the one of these formats that is a type's.
template <class... Formats>
MultiplyLaunches launches_among(DType type) {
  MultiplyLaunches out;
  ((type == Formats::kType ? static_cast<void>(out = launches_of_format<Formats>()) : static_cast<void>(0)), ...);
  return out;
}

}  // namespace espalier::cuda
