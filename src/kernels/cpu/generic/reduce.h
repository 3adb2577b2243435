// reduce.h: several registers to one number each; four at once are quicker, with the same bits.
#pragma once

#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

[[gnu::always_inline]] ESPALIER_LANES inline void reduce_three(const Simd::F (&a)[3], float* out,
                                                               void (*reduce4)(const Simd::F (&)[4], float*)) {
  float of_four[4];
  reduce4({a[0], a[1], a[2], a[2]}, of_four);
  __builtin_memcpy(out, of_four, 3 * sizeof(float));
}

ESPALIER_LANES inline void reduce_add(const Simd::F (&a)[4], float* out) {
  Simd::reduce_add4(a, out);
}
ESPALIER_LANES inline void reduce_add(const Simd::F (&a)[3], float* out) {
  reduce_three(a, out, Simd::reduce_add4);
}
ESPALIER_LANES inline void reduce_add(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_add(a[0]);
}
ESPALIER_LANES inline void reduce_max(const Simd::F (&a)[4], float* out) {
  Simd::reduce_max4(a, out);
}
ESPALIER_LANES inline void reduce_max(const Simd::F (&a)[3], float* out) {
  reduce_three(a, out, Simd::reduce_max4);
}
ESPALIER_LANES inline void reduce_max(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_max(a[0]);
}

}  // namespace espalier::kernels::ESPALIER_ISA
