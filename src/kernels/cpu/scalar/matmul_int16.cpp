// Two-byte activations x every quantised format.
#define ESPALIER_ISA scalar
#include "kernels/cpu/scalar/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::scalar {

MatmulKernel matmul_int16_for(DType type) {
  return matmul_for<Int16Tile>(type);
}

}  // namespace espalier::kernels::scalar
