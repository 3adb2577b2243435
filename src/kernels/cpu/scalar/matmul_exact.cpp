// Float activations x every quantised format, decoded in registers.
#define ESPALIER_ISA scalar
#include "kernels/cpu/scalar/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::scalar {

MatmulKernel matmul_exact_for(DType type) {
  return matmul_for<ExactTile>(type);
}

}  // namespace espalier::kernels::scalar
