// bf16 x bf16 by the dot product that Zen 4, Sapphire Rapids and later have; compiled with -mavx512bf16.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/matmul.h"

namespace espalier::kernels::avx512 {

MatmulKernel matmul_bf16_dot() { return matmul<Bf16Tile>; }

}  // namespace espalier::kernels::avx512
#endif
