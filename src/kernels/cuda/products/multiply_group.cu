// Products with codes that have a scale and a zero point for each group: those of quantised Hugging Face checkpoints.
#include "kernels/cuda/products/multiply_whole.h"

namespace espalier::cuda {
namespace {

template <DType kType, int kBits, int kParts>
using Group = kernels::fragments::Group<kType, kBits, kParts>;

}  // namespace

MultiplyLaunches multiply_group(DType type) {
  return launches_among<Group<DType::g2_32, 2, 1>, Group<DType::g2_64, 2, 2>, Group<DType::g2_128, 2, 4>,
                        Group<DType::g3_32, 3, 1>, Group<DType::g3_128, 3, 4>, Group<DType::g4_32, 4, 1>,
                        Group<DType::g4_128, 4, 4>, Group<DType::g8_32, 8, 1>, Group<DType::g8_128, 8, 4>>(type);
}

}  // namespace espalier::cuda
