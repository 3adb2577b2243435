// Products with K-quants.
#include "kernels/cuda/products/multiply_whole.h"

namespace espalier::cuda {

namespace of = kernels::fragments;

MultiplyLaunches multiply_super(DType type) {
  return launches_among<of::Q2_K, of::Q3_K, of::Q4_K, of::Q5_K, of::Q6_K>(type);
}

}  // namespace espalier::cuda
