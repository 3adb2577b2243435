// Products with types whose codes are places in tables, in blocks of 64 or 256 values.
#include "kernels/cuda/products/multiply_whole.h"

namespace espalier::cuda {

namespace of = kernels::fragments;

MultiplyLaunches multiply_table(DType type) {
  return launches_among<of::IQ4_XS, of::IQ1_S, of::IQ1_M, of::IQ2, of::IQ3_XXS, of::IQ3_S, of::TQ, of::NVFP4>(type);
}

}  // namespace espalier::cuda
