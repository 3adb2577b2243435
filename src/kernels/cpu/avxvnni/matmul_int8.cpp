// Quantised weights x activations of one and two bytes: all that AVX-VNNI changes.
#if defined(__x86_64__)
#define ESPALIER_ISA avxvnni
#include "kernels/cpu/avxvnni/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/peak.h"

namespace espalier::kernels::avxvnni {

void fill_int8(CpuKernels& table) {
  table.matmul_int8 = matmul_for<Int8Tile>;
  table.matmul_int16 = matmul_for<Int16Tile>;
  table.peak_int8 = peak_int8;
}

}  // namespace espalier::kernels::avxvnni
#endif
