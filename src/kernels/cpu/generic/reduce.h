// reduce.h: several registers to one number each; four at once are quicker, with the same bits.
#pragma once

namespace espalier::kernels::ESPALIER_ISA {

inline void reduce_add(const Simd::F (&a)[4], float* out) {
  Simd::reduce_add4(a, out);
}
inline void reduce_add(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_add(a[0]);
}
inline void reduce_max(const Simd::F (&a)[4], float* out) {
  Simd::reduce_max4(a, out);
}
inline void reduce_max(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_max(a[0]);
}

}  // namespace espalier::kernels::ESPALIER_ISA
