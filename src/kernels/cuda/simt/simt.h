// simt.h: what a kernel may ask of whatever runs it: CUDA's threads, or fibers on a CPU that stand for them.
//
// The same .cu files are compiled by nvcc for GPUs and by g++ against the emulator (emulator.h), so every kernel can be
// tested without a GPU. A kernel is a void function of values marked ESPALIER_GLOBAL, its helpers are ESPALIER_ON_DEVICE; it
// uses nothing of CUDA but what stands here, except in files that only nvcc compiles.
// Threads: of a block, one dimension. Fails: check() of a launch tells.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define ESPALIER_GLOBAL __global__
#define ESPALIER_ON_DEVICE __device__
#define ESPALIER_EITHER __host__ __device__
#define ESPALIER_IN_PLACE \
  __forceinline__  // a function whose callers have its code, so that arrays they share are registers
// Behind ESPALIER_GLOBAL: the most threads of a block, and perhaps how many blocks shall fit on a multiprocessor.
#define ESPALIER_MOST_THREADS(...) __launch_bounds__(__VA_ARGS__)
#define ESPALIER_PRAGMA(text) _Pragma(#text)
#define ESPALIER_UNROLL(count) ESPALIER_PRAGMA(unroll count)  // of the loop behind it, so many rounds side by side
#else
#define ESPALIER_GLOBAL
#define ESPALIER_ON_DEVICE
#define ESPALIER_EITHER
#define ESPALIER_IN_PLACE inline
#define ESPALIER_MOST_THREADS(...)
#define ESPALIER_UNROLL(count)
#include "kernels/cuda/simt/emulator.h"
#endif

namespace espalier::simt {

// How a kernel is launched.
struct Shape {
  unsigned blocks_x, blocks_y = 1;
  unsigned threads = 128;        // of a block, a multiple of 32
  std::size_t shared_bytes = 0;  // of a block's shared memory
};

#ifdef __CUDACC__

using Stream = cudaStream_t;

ESPALIER_ON_DEVICE inline int thread() {
  return static_cast<int>(threadIdx.x);
}
ESPALIER_ON_DEVICE inline int threads() {
  return static_cast<int>(blockDim.x);
}
ESPALIER_ON_DEVICE inline int block_x() {
  return static_cast<int>(blockIdx.x);
}
ESPALIER_ON_DEVICE inline int block_y() {
  return static_cast<int>(blockIdx.y);
}
ESPALIER_ON_DEVICE inline int blocks_x() {
  return static_cast<int>(gridDim.x);
}

// All threads of the block wait for one another; what they wrote before is seen behind it.
ESPALIER_ON_DEVICE inline void meet() {
  __syncthreads();
}
// The same of kWidth neighbours: 16 or 32.
template <int kWidth>
ESPALIER_ON_DEVICE unsigned neighbours() {
  return kWidth == 32 ? ~0u : 0xffffu << (threadIdx.x & 16);
}
template <int kWidth>
ESPALIER_ON_DEVICE void meet_neighbours() {
  __syncwarp(neighbours<kWidth>());
}
// What the neighbour whose number differs by these bits holds, or the one of this number among kWidth.
template <int kWidth, class T>
ESPALIER_ON_DEVICE T of_neighbour_xor(T value, int bits) {
  return __shfl_xor_sync(neighbours<kWidth>(), value, bits, kWidth);
}
template <int kWidth, class T>
ESPALIER_ON_DEVICE T of_neighbour(T value, int number) {
  return __shfl_sync(neighbours<kWidth>(), value, number, kWidth);
}

// The block's shared memory; what it holds at first is not known.
template <class T>
ESPALIER_ON_DEVICE T* shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

ESPALIER_ON_DEVICE inline int dot4_signed(int a, int b, int sum) {
  return __dp4a(a, b, sum);
}
ESPALIER_ON_DEVICE inline int dot4_unsigned(unsigned a, int b, int sum) {
  int out;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
}
// The same number, which the compiler then keeps instead of working it out again.
ESPALIER_ON_DEVICE inline int kept(int number) {
  asm volatile("" : "+r"(number));
  return number;
}
ESPALIER_ON_DEVICE inline const std::uint8_t* kept(const std::uint8_t* place) {  // in the device's memory
  asm volatile("" : "+l"(place));
  return place;
}
ESPALIER_ON_DEVICE inline int count_bits(std::uint64_t bits) {
  return __popcll(bits);
}
ESPALIER_ON_DEVICE inline int lowest_bit(std::uint64_t bits) {
  return __ffsll(static_cast<long long>(bits)) - 1;
}  // not of 0
// Four bytes of eight, `high` being the upper four: those that the nibbles of `which` name.
ESPALIER_ON_DEVICE inline unsigned pick_bytes(unsigned low, unsigned high, unsigned which) {
  return __byte_perm(low, high, which);
}

// c += a b, by 32 neighbours together, a being [16][k] and b [k][8]. Neighbour 4 g + t has, of a, rows g and g + 8 in turns,
// words t and t + 4 (of four bytes, or two bf16); of b's column g the same words; of c row g in columns 2 t, 2 t + 1, then row
// g + 8. Bytes are signed, and their sums exact; those of bf16 are rounded as the device does.
ESPALIER_ON_DEVICE inline void mma_s8(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same of half as many k: words t.
ESPALIER_ON_DEVICE inline void mma_s8(int (&c)[4], const unsigned (&a)[2], unsigned b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
}
ESPALIER_ON_DEVICE inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The most that shared_bytes can be.
inline std::size_t most_shared_bytes() {
  static const std::size_t most = [] {
    int device = 0, bytes = 48 * 1024;
    if (cudaGetDevice(&device) == cudaSuccess)
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return static_cast<std::size_t>(bytes);
  }();
  return most;
}

template <class... Parameters, class... Arguments>
void launch(Stream stream, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0) return;
  if (shape.shared_bytes > 48 * 1024)
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shape.shared_bytes));
  kernel<<<dim3(shape.blocks_x, shape.blocks_y), shape.threads, shape.shared_bytes, stream>>>(arguments...);
}

#else

using Stream = void*;

inline int thread() {
  return emulator::at().thread;
}
inline int threads() {
  return emulator::at().threads;
}
inline int block_x() {
  return emulator::at().block_x;
}
inline int block_y() {
  return emulator::at().block_y;
}
inline int blocks_x() {
  return emulator::at().blocks_x;
}
inline void meet() {
  emulator::meet(emulator::kBlock);
}
template <int kWidth>
void meet_neighbours() {
  emulator::meet(kWidth);
}
template <int kWidth, class T>
T of_neighbour(T value, int number) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = emulator::exchange(kWidth, bits, number);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <int kWidth, class T>
T of_neighbour_xor(T value, int bits) {
  return of_neighbour<kWidth>(value, (emulator::at().thread % kWidth) ^ bits);
}
template <class T>
T* shared() {
  return reinterpret_cast<T*>(emulator::at().shared);
}

inline int dot4_signed(int a, int b, int sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return sum;
}
inline int dot4_unsigned(unsigned a, int b, int sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<int>(a >> (8 * i) & 255) * static_cast<std::int8_t>(b >> (8 * i));
  return sum;
}
inline int kept(int number) {
  return number;
}
inline const std::uint8_t* kept(const std::uint8_t* place) {
  return place;
}
inline int count_bits(std::uint64_t bits) {
  return __builtin_popcountll(bits);
}
inline int lowest_bit(std::uint64_t bits) {
  return __builtin_ctzll(bits);
}
inline unsigned pick_bytes(unsigned low, unsigned high, unsigned which) {
  const std::uint64_t all = std::uint64_t{high} << 32 | low;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<unsigned>(all >> (8 * (which >> (4 * i) & 7)) & 255) << (8 * i);
  return out;
}

namespace emulated_mma {
// c[i] of this thread, by the words that all 32 neighbours have given: those of its rows and columns, in ascending k.
template <int kWords, class Sum, class Add>
void multiply(Sum (&c)[4], const emulator::Words& mine, Add add) {
  const emulator::Words* given = emulator::exchange_words(mine);
  const int g = emulator::at().thread % 32 / 4, t = emulator::at().thread % 4;
  for (int i = 0; i < 4; ++i)
    for (int word = 0; word < kWords; ++word) {
      const unsigned* of_row = given[4 * g + word % 4].word;
      const unsigned* of_column = given[4 * (2 * t + i % 2) + word % 4].word;
      add(c[i], of_row[i / 2 + word / 4 * 2], of_column[4 + word / 4]);
    }
}
inline float half_of(unsigned word, int i) {
  const std::uint32_t bits = i == 0 ? word << 16 : word & 0xffff0000u;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
}  // namespace emulated_mma

inline void mma_s8(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulated_mma::multiply<8>(c, {{a[0], a[1], a[2], a[3], b[0], b[1]}}, [](int& sum, unsigned x, unsigned y) {
    sum = dot4_signed(static_cast<int>(x), static_cast<int>(y), sum);
  });
}
inline void mma_s8(int (&c)[4], const unsigned (&a)[2], unsigned b) {
  emulated_mma::multiply<4>(c, {{a[0], a[1], 0, 0, b, 0}}, [](int& sum, unsigned x, unsigned y) {
    sum = dot4_signed(static_cast<int>(x), static_cast<int>(y), sum);
  });
}
inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulated_mma::multiply<8>(c, {{a[0], a[1], a[2], a[3], b[0], b[1]}}, [](float& sum, unsigned x, unsigned y) {
    for (int i = 0; i < 2; ++i) sum += emulated_mma::half_of(x, i) * emulated_mma::half_of(y, i);  // products are exact
  });
}

inline std::size_t most_shared_bytes() {
  return emulator::most_shared_bytes();
}

template <class... Parameters, class... Arguments>
void launch(Stream, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  emulator::run({shape.blocks_x, shape.blocks_y, shape.threads, shape.shared_bytes}, [&] { kernel(arguments...); });
}

#endif

}  // namespace espalier::simt
