// Quantised weights x activations of one and two bytes: all that I8MM changes.
#if defined(__aarch64__)
#define ESPALIER_ISA i8mm
#include "kernels/cpu/i8mm/simd.h"

#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/i8mm/pair_tile.h"

namespace espalier::kernels::i8mm {
namespace {

double peak_int8(std::int64_t rounds) {
  constexpr int kChains = 16;  // a pipe takes four cycles, and there may be four
  const uint8x16_t w = vdupq_n_u8(3);
  const int8x16_t x = vdupq_n_s8(-2);
  int32x4_t acc[kChains] = {};
  for (std::int64_t round = 0; round < rounds; ++round)
    each<kChains>([&](auto i) {
      int32x4_t sum = vusmmlaq_s32(acc[i], w, x);
      asm volatile("" : "+w"(sum));
      acc[i] = sum;
    });
  return 2.0 * 2 * 2 * 8 * kChains * static_cast<double>(rounds);
}

}  // namespace

void fill_int8(CpuKernels& table) {
  table.matmul_int8 = matmul_for<Int8Pairs>;
  table.matmul_int16 = matmul_for<Int16Pairs>;
  table.peak_int8 = peak_int8;
}

}  // namespace espalier::kernels::i8mm
#endif
