#include "kernels/cuda/four_words.h"
#include "kernels/cuda/peaks_task.h"

#ifdef __CUDACC__
#include <cute/arch/mma_sm90_gmma.hpp>
#include <utility>

#include "kernels/cuda/simt/wgmma_matrix.h"
#endif

namespace espalier::cuda {
namespace {

ESPALIER_ON_DEVICE inline int number_of_thread() {
  return simt::block_x() * simt::threads() + simt::thread();
}

ESPALIER_GLOBAL void read(const PeakTask task) {
  constexpr int kAtOnce = 4;
  const auto* const from = reinterpret_cast<const FourWords*>(task.memory);
  const auto count = static_cast<std::int64_t>(task.bytes / sizeof(FourWords));
  const std::int64_t all = static_cast<std::int64_t>(simt::blocks_x()) * simt::threads(), first = number_of_thread();
  std::uint32_t seen = 0;
  for (std::int64_t round = 0; round < task.rounds; ++round) {
    std::int64_t at = first;
    for (; at + (kAtOnce - 1) * all < count; at += kAtOnce * all) {
      FourWords come[kAtOnce];
      ESPALIER_UNROLL(4)
      for (int i = 0; i < kAtOnce; ++i) come[i] = from[at + i * all];
      ESPALIER_UNROLL(4)
      for (int i = 0; i < kAtOnce; ++i) seen += come[i].x[0] ^ come[i].x[1] ^ come[i].x[2] ^ come[i].x[3];
    }
    for (; at < count; at += all) seen += from[at].x[0] ^ from[at].x[1] ^ from[at].x[2] ^ from[at].x[3];
  }
  task.out[first] = static_cast<float>(seen);
}

ESPALIER_GLOBAL void multiply_f32(const PeakTask task) {
  constexpr int kSums = 16, kTimes = 4;
  const float by = 1.0f + static_cast<float>(task.rounds & 1) * 0x1p-20f, plus = static_cast<float>(task.blocks);
  float sums[kSums];
  ESPALIER_UNROLL(16)
  for (int i = 0; i < kSums; ++i) sums[i] = static_cast<float>(simt::thread() + i);
  for (std::int64_t round = 0; round < task.rounds; ++round) {
    ESPALIER_UNROLL(4)
    for (int time = 0; time < kTimes; ++time) {
      ESPALIER_UNROLL(16)
      for (int i = 0; i < kSums; ++i) sums[i] = fmaf(sums[i], by, plus);
    }
  }
  float all = 0;
  ESPALIER_UNROLL(16)
  for (int i = 0; i < kSums; ++i) all += sums[i];
  task.out[number_of_thread()] = all;
}

// Some numbers of both signs: multipliers take less power, and so run faster, where most bits never change.
ESPALIER_ON_DEVICE inline unsigned some_bytes(int which) {
  return static_cast<unsigned>(simt::thread() * 8 + which) * 2654435761u;
}
ESPALIER_ON_DEVICE inline unsigned some_bf16(int which) {
  return (some_bytes(which) & 0x80ff80ffu) | 0x3f003f00u;  // .5 to 2
}

// 32 steps of mma in turns of eight sums.
template <class Sum, class Step>
ESPALIER_ON_DEVICE void multiply_by_mma(const PeakTask& task, Step step) {
  constexpr int kSums = 8, kTimes = 4;
  Sum sums[kSums][4] = {};
  for (std::int64_t round = 0; round < task.rounds; ++round) {
    ESPALIER_UNROLL(4)
    for (int time = 0; time < kTimes; ++time) {
      ESPALIER_UNROLL(8)
      for (int i = 0; i < kSums; ++i) step(sums[i]);
    }
  }
  float all = 0;
  ESPALIER_UNROLL(8)
  for (int i = 0; i < kSums; ++i) {
    ESPALIER_UNROLL(4)
    for (int j = 0; j < 4; ++j) all += static_cast<float>(sums[i][j]);
  }
  task.out[number_of_thread()] = all;
}
ESPALIER_GLOBAL void multiply_int8(const PeakTask task) {
  const unsigned a[4] = {some_bytes(0), some_bytes(1), some_bytes(2), some_bytes(3)};
  const unsigned b[2] = {some_bytes(4), some_bytes(5)};
  multiply_by_mma<int>(task, [&](int(&sums)[4]) { simt::mma_s8(sums, a, b); });
}

constexpr int kRows = 64, kColumns = 256, kStep = 16;  // of wgmma
constexpr int kBf16Bytes = (kRows + kColumns) * kStep * 2;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <std::size_t... kI>
__device__ void step(float (&sums)[sizeof...(kI)], std::uint64_t a, std::uint64_t b, std::index_sequence<kI...>) {
  using cute::SM90::GMMA::Major;
  cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_SS<Major::K, Major::K>::fma(a, b, sums[kI]...);
}
__device__ void multiply_bf16_here(const PeakTask& task) {
  constexpr int kSums = kColumns / 2;
  auto* const shared = simt::shared<std::uint8_t>();
  for (int i = simt::thread(); i < kBf16Bytes / 4; i += simt::threads())
    reinterpret_cast<unsigned*>(shared)[i] = some_bf16(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  simt::meet();
  const auto matrix = [&](int first_row) {  // [8 rows][16 bytes] side by side, two for a step
    return simt::wgmma_matrix(shared + first_row * kStep * 2, 128, 256, 0);
  };
  const std::uint64_t a = matrix(0), b = matrix(kRows);
  float sums[kSums] = {};
  for (int i = 0; i < kSums; ++i) cute::warpgroup_fence_operand(sums[i]);
#pragma unroll 1
  for (std::int64_t round = 0; round < task.rounds; ++round) {
    cute::warpgroup_arrive();
    step(sums, a, b, std::make_index_sequence<kSums>());
    cute::warpgroup_commit_batch();
    cute::warpgroup_wait<1>();
  }
  cute::warpgroup_wait<0>();
  float all = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    cute::warpgroup_fence_operand(sums[i]);
    all += sums[i];
  }
  task.out[number_of_thread()] = all;
}

#else

ESPALIER_ON_DEVICE void multiply_bf16_here(const PeakTask& task) {
  const unsigned a[4] = {some_bf16(0), some_bf16(1), some_bf16(2), some_bf16(3)}, b[2] = {some_bf16(4), some_bf16(5)};
  multiply_by_mma<float>(task, [&](float(&sums)[4]) { simt::mma_bf16(sums, a, b); });
}

#endif

ESPALIER_GLOBAL void multiply_bf16(const PeakTask task) {
  multiply_bf16_here(task);
}

}  // namespace

void reach_peak(simt::Stream stream, const PeakTask& task) {
  const auto go = [&](auto kernel, std::size_t shared_bytes = 0) {
    simt::launch(stream, {static_cast<unsigned>(task.blocks), 1, kPeakThreads, shared_bytes}, kernel, task);
  };
  switch (task.peak) {
    case Peak::reads:
      return go(read);
    case Peak::f32:
      return go(multiply_f32);
    case Peak::int8:
      return go(multiply_int8);
    case Peak::bf16:
      return go(multiply_bf16, kBf16Bytes);
  }
}

}  // namespace espalier::cuda
