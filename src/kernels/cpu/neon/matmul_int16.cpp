// Two-byte activations x every quantised format.
#if defined(__aarch64__)
#define ESPALIER_ISA neon
#include "kernels/cpu/neon/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::neon {

MatmulKernel matmul_int16_for(DType type) {
  return matmul_for<Int16Tile>(type);
}

}  // namespace espalier::kernels::neon
#endif
