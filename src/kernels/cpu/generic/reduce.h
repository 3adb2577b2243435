// reduce.h: several registers to one number each; four at once are quicker, with the same bits.
#pragma once

namespace espalier::kernels::ESPALIER_ISA {

inline void reduce_add(const Simd::F (&a)[4], float* out) {
  Simd::reduce_add4(a, out);
}
inline void reduce_add(const Simd::F (&a)[3], float* out) {
  const Simd::F four[4] = {a[0], a[1], a[2], a[2]};
  float sums[4];
  Simd::reduce_add4(four, sums);
  __builtin_memcpy(out, sums, 3 * sizeof(float));
}
inline void reduce_add(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_add(a[0]);
}
inline void reduce_max(const Simd::F (&a)[4], float* out) {
  Simd::reduce_max4(a, out);
}
inline void reduce_max(const Simd::F (&a)[3], float* out) {
  const Simd::F four[4] = {a[0], a[1], a[2], a[2]};
  float most[4];
  Simd::reduce_max4(four, most);
  __builtin_memcpy(out, most, 3 * sizeof(float));
}
inline void reduce_max(const Simd::F (&a)[1], float* out) {
  *out = Simd::reduce_max(a[0]);
}

}  // namespace espalier::kernels::ESPALIER_ISA
