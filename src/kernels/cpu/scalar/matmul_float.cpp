// Float weights x float activations.
#define ESPALIER_ISA scalar
#include "kernels/cpu/scalar/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::scalar {

void fill_float_matmuls(CpuKernels& table) {
  table.matmul_f32 = matmul<FloatTile<DType::f32>>;
  table.matmul_f16 = matmul<FloatTile<DType::f16>>;
  table.matmul_bf16 = matmul<FloatTile<DType::bf16>>;
  table.matmul_bf16_bf16 = nullptr;
  table.matmul_float8_bf16 = nullptr;
}

}  // namespace espalier::kernels::scalar
