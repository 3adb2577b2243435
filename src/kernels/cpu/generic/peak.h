// peak.h: loops that do nothing else, to find what this machine's multipliers and memory give with these instructions.
//
// The peak loops return the operations done (a multiply-add is two). Independent chains hide the latency.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

inline double peak_f32(std::int64_t rounds) {
  Simd::F acc[Simd::kPeakChains];
  each<Simd::kPeakChains>([&](auto i) { acc[i] = Simd::set1(0.5f); });
  const Simd::F x = Simd::set1(0.999f), y = Simd::set1(1e-3f);
  for (std::int64_t round = 0; round < rounds; ++round)
    each<Simd::kPeakChains>([&](auto i) {
      Simd::F sum = Simd::fma(acc[i], x, y);
      Simd::keep(sum);
      acc[i] = sum;
    });
  return 2.0 * 16 * Simd::kPeakChains * static_cast<double>(rounds);
}

// With 16-bit sums where there are some: what formats of four bits and less can reach.
inline double peak_int8(std::int64_t rounds) {
  const Simd::B w = Simd::bset1(3);
  alignas(4) std::int8_t four[4] = {1, -2, 3, -1};
  if constexpr (Simd::kPairSums) {
    Simd::P acc[Simd::kPeakChains] = {};
    for (std::int64_t round = 0; round < rounds; ++round)
      each<Simd::kPeakChains>([&](auto i) {
        asm volatile("" : "+m"(four));  // else the product, which is always the same, is taken out of the loop
        acc[i] = Simd::dot_pairs(acc[i], w, Simd::aload(four));  // keeps it
      });
  } else {
    Simd::I acc[Simd::kPeakChains];
    each<Simd::kPeakChains>([&](auto i) { acc[i] = Simd::iset1(0); });
    const Simd::A x = Simd::aload(four);
    for (std::int64_t round = 0; round < rounds; ++round)
      each<Simd::kPeakChains>([&](auto i) {
        Simd::I sum = Simd::template dot4<true>(acc[i], w, x);
        Simd::keep(sum);  // not acc[i]: g++ would hold the array in memory
        acc[i] = sum;
      });
  }
  return 2.0 * 64 * Simd::kPeakChains * static_cast<double>(rounds);
}

// Reads `bytes` (a multiple of 256) once, in four streams: one is slower, with and without prefetching (up to a third).
inline void read_memory(const std::uint8_t* p, std::size_t bytes) {
  const std::size_t stream = bytes / 4;
  Simd::B acc[4] = {Simd::bload(p), Simd::bload(p), Simd::bload(p), Simd::bload(p)};
  for (std::size_t i = 0; i < stream; i += 64)
    each<4>([&](auto j) { acc[j] = Simd::bor(acc[j], Simd::bload(p + j * stream + i)); });
  for (auto& a : acc) asm volatile("" : : "m"(a) : "memory");
}

}  // namespace espalier::kernels::ESPALIER_ISA
