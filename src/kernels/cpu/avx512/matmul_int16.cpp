// Two-byte activations x every quantised format.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::avx512 {

MatmulKernel matmul_int16_for(DType type) {
  return matmul_for<Int16Tile>(type);
}

}  // namespace espalier::kernels::avx512
#endif
