// Products with types of one scale for 32 values.
#include "kernels/cuda/products/multiply_whole.h"

namespace espalier::cuda {

namespace of = kernels::fragments;

MultiplyLaunches multiply_legacy(DType type) {
  return launches_among<of::Q8_0, of::Q4_0, of::Q4_1, of::Q5_0, of::Q5_1, of::IQ4_NL, of::MXFP4>(type);
}

}  // namespace espalier::cuda
