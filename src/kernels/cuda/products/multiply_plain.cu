// Products with weights that are floats, of whatever width, or places in a table of floats.
#include "kernels/cuda/products/multiply_floats.h"
#include "kernels/cuda/products/multiply_launches.h"

namespace espalier::cuda {

namespace of = kernels::fragments;

MultiplyLaunches multiply_plain(DType type) {
  switch (type) {
    case DType::f32:
      return {.floats = floats::launch<floats::Plain<DType::f32>>};
    case DType::f16:
      return {.floats = floats::launch<floats::Plain<DType::f16>>, .halves = multiply_float_codes(type)};
    case DType::bf16:
      return {.floats = floats::launch<floats::Plain<DType::bf16>>, .halves = multiply_tensor};
    case DType::f8_32:
      return {.floats = floats::launch<floats::Decoded<of::Float8<DType::f8_32, 32>>>,
              .halves = multiply_float_codes(type)};
    case DType::f8_128:
      return {.floats = floats::launch<floats::Decoded<of::Float8<DType::f8_128, 128>>>,
              .halves = multiply_float_codes(type)};
    case DType::nf4:
      return {.floats = floats::launch<floats::Decoded<of::FourBitFloats<DType::nf4, kNf4Values>>>,
              .halves = multiply_float_codes(type)};
    case DType::fp4:
      return {.floats = floats::launch<floats::Decoded<of::FourBitFloats<DType::fp4, kFp4Table>>>,
              .halves = multiply_float_codes(type)};
    default:
      return {};
  }
}

}  // namespace espalier::cuda
