// Float activations x every quantised format, decoded in registers.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::avx512 {

MatmulKernel matmul_exact_for(DType type) {
  if (const MatmulKernel kernel = matmul_for<ExactTile>(type)) return kernel;
  return choose_float_format(type, []<class Format>() -> MatmulKernel { return matmul<ExactTile<Format>>; });
}

}  // namespace espalier::kernels::avx512
#endif
