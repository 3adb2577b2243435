// The table of this instruction set.
#if defined(__aarch64__)
#define ESPALIER_ISA neon
#include "kernels/cpu/neon/simd.h"

#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/parts.h"
#include "kernels/cpu/generic/peak.h"
#include "kernels/cpu/generic/store_kv.h"

namespace espalier::kernels::neon {

void fill(CpuKernels& table) {
  table.isa = "neon";
  fill_float_matmuls(table);
  table.matmul_exact = matmul_exact_for;
  table.matmul_int8 = matmul_int8_for;
  table.matmul_int16 = matmul_int16_for;
  table.rms_norm = rms_norm;
  table.quantise = quantise;
  table.quantise_wide = quantise_wide;
  table.to_bf16 = to_bf16;
  table.rotate_halves = rotate_halves;
  table.store_kv = store_kv;
  fill_attention(table);
  fill_functions(table);
  fill_recurrence(table);
  table.peak_f32 = peak_f32;
  table.peak_int8 = peak_int8;
  table.peak_bf16 = nullptr;
  table.read_memory = read_memory;
}

}  // namespace espalier::kernels::neon
#endif
