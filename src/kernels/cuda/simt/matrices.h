// matrices.h: operands of tensor cores (simt.h: mma_bf16) out of shared memory, and their bf16.
//
// A matrix is eight rows of 16 bytes; four of them are loaded together by 32 neighbours, who all call. Neighbour 8 m + i names
// row i of matrix m. Of matrix m, neighbour 4 g + t gets the word of row g in columns 2 t, 2 t + 1; or turned, of column g in
// rows 2 t, 2 t + 1.
// Fails: never.
#pragma once

#include "kernels/cuda/simt/simd.h"

namespace espalier::simt {

// Two floats as bf16, to nearest; the first one is the lower half.
ESPALIER_ON_DEVICE inline unsigned two_bf16(float first, float second) {
#ifdef __CUDA_ARCH__
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  return kernels::simt::float_to_bf16(first) | static_cast<unsigned>(kernels::simt::float_to_bf16(second)) << 16;
#endif
}

#ifdef __CUDACC__

ESPALIER_ON_DEVICE inline void load_matrices(unsigned (&out)[4], const void* row) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}
ESPALIER_ON_DEVICE inline void load_matrices_turned(unsigned (&out)[4], const void* row) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
}

#else

namespace emulated_matrices {
// What each neighbour's row holds; read when it asks, so that who writes it later without a barrier is found.
inline const emulator::Words* rows(const void* row) {
  emulator::must_be_aligned(row, 16);
  emulator::Words mine{};
  std::memcpy(mine.word, row, 16);
  return emulator::exchange_words(mine);
}
}  // namespace emulated_matrices

inline void load_matrices(unsigned (&out)[4], const void* row) {
  const emulator::Words* given = emulated_matrices::rows(row);
  const int g = emulator::at().thread % 32 / 4, t = emulator::at().thread % 4;
  for (int m = 0; m < 4; ++m) out[m] = given[8 * m + g].word[t];
}
inline void load_matrices_turned(unsigned (&out)[4], const void* row) {
  const emulator::Words* given = emulated_matrices::rows(row);
  const int g = emulator::at().thread % 32 / 4, t = emulator::at().thread % 4;
  const auto element = [&](int m, int i) { return given[8 * m + i].word[g / 2] >> (16 * (g % 2)) & 0xffffu; };
  for (int m = 0; m < 4; ++m) out[m] = element(m, 2 * t) | element(m, 2 * t + 1) << 16;
}

#endif

}  // namespace espalier::simt
