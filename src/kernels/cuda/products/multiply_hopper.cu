// Products of many rows of bf16 by Hopper's tensor cores (wgmma), with weights of bf16 or of FP8 by 128, for sm_90a alone; elsewhere
// multiply_tensor.cu and multiply_float_codes.cu compute them.
//
// The blocks of a cluster, two or four, take the same rows, each with eight panels of its own. A thread of theirs asks the
// tensor memory accelerator for 64 values of K at a time: of its panels, and of its part of the rows, which come to all of
// them. Two warp groups multiply: a panel for each warp, whose words become register A of a product as they are, or as codes
// that become bf16 in registers (hopper_panels.h), while rows stay in shared memory. Values of K meet as in those files: 16 in a
// step, in order; groups of 1,024 from zero, of FP8 the 128 of a scale. So what a row gets does not depend on how many rows a
// block takes, and a device whose wgmma rounds as its mma gives the same bits with both (settle_products() asks it).
// A block stays and takes one tile after the other: the next one's first values come while the last one's sums are stored.
#include "kernels/cuda/products/hopper_panels.h"
#include "kernels/cuda/products/multiply_launches.h"
#include "kernels/cuda/products/multiply_task.h"
#include "kernels/cuda/products/multiply_work.h"

#ifdef __CUDACC__

#include <cuda.h>

#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/simt/wgmma_matrix.h"

namespace espalier::cuda {
namespace {

namespace gmma = cute::SM90::GMMA;
using namespace hopper;
using float_codes::TwoFloats;
using Full = cutlass::arch::ClusterTransactionBarrier;
using Empty = cutlass::arch::ClusterBarrier;

constexpr int kPanels = 8, kWarpGroups = 2, kThreads = 128 * (1 + kWarpGroups);
constexpr int kRowBytes = kValues * 2;  // of a stage
constexpr int kPitch = 66;  // floats of a row of sums on their way out: 64 columns of a warp group, and a gap

// A block's shared memory, with kRows rows: stages of panels and rows, sums of 64 rows for each warp group, barriers.
template <class Panels, int kRows>
struct Room {
  static constexpr int kAlign = 1024;  // of what the accelerator writes in its own order
  static constexpr int kOfPanels = kPanels * Panels::kLines * kLine, kStage = kOfPanels + kRows * kRowBytes;
  static constexpr int kSums = 64 * kPitch * 4, kBarriers = 256;
  static constexpr int kFits = (227 * 1024 - kAlign - kBarriers - kWarpGroups * kSums) / kStage;
  static constexpr int kStages = kFits < 8 ? kFits : 8;
  static constexpr int kBytes = kAlign + kStages * kStage + kWarpGroups * kSums + kBarriers;
};

// The tiles of a product: rows change first, so that blocks at work at the same time share their panels, or their rows.
template <int kRows, int kCluster>
struct Tiles {
  int of_rows, of_panels;  // the latter: one for each block of a cluster
  __host__ __device__ explicit Tiles(const MatmulTask& t)
      : of_rows((t.row_end - t.row_begin + kRows - 1) / kRows),
        of_panels((t.panel_end - t.panel_begin + kCluster * kPanels - 1) / (kCluster * kPanels)) {}
  __host__ __device__ int count() const { return of_rows * of_panels; }
};

// The instruction: 64 columns, kRows rows, 16 values of K.
template <int kRows>
struct Atom;
template <>
struct Atom<64> : gmma::MMA_64x64x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::K> {};
template <>
struct Atom<128> : gmma::MMA_64x128x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::K> {};
template <>
struct Atom<192> : gmma::MMA_64x192x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::K> {};

// What the threads of a block do.
template <class Panels, int kRows, int kCluster>
class Kernel {
 public:
  using Plan = Room<Panels, kRows>;
  static constexpr int kSums = kRows / 2;  // of a thread

  __device__ Kernel(const CUtensorMap& panels, const CUtensorMap& rows, const MatmulTask& t)
      : panels_(panels),
        rows_(rows),
        t_(t),
        memory_(aligned(simt::shared<std::uint8_t>())),
        full_(reinterpret_cast<Full*>(memory_ + Plan::kStages * Plan::kStage + kWarpGroups * Plan::kSums)),
        empty_(reinterpret_cast<Empty*>(full_ + Plan::kStages)),
        rank_(static_cast<int>(cute::block_rank_in_cluster())),
        stages_(static_cast<int>((t.k + kValues - 1) / kValues)),
        tiles_(t) {}

  __device__ void run() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Plan::kStages; ++i) {
        full_[i].init(1);
        empty_[i].init(kCluster * kWarpGroups * 4);  // warps of all blocks
      }
      cutlass::arch::fence_barrier_init();
    }
    cute::cluster_sync();
    if (threadIdx.x < 128) {
      cutlass::arch::warpgroup_reg_dealloc<40>();
      if (threadIdx.x == 0) ask();
      __syncwarp();
    } else {
      cutlass::arch::warpgroup_reg_alloc<232>();
      multiply();
    }
    cute::cluster_sync();  // others may still tell this block that they have read
  }

 private:
  static __device__ std::uint8_t* aligned(std::uint8_t* memory) {
    const auto at = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    return memory + ((Plan::kAlign - at % Plan::kAlign) & (Plan::kAlign - 1));
  }
  // Where a stage lies, and whether for an even or an odd time: stages go round, over all tiles.
  struct Place {
    int slot = 0;
    unsigned turn = 0;
    __device__ Place next() const {
      const bool last = slot + 1 == Plan::kStages;
      return {last ? 0 : slot + 1, last ? turn ^ 1 : turn};
    }
  };
  __device__ std::uint8_t* at(int slot) const { return memory_ + slot * Plan::kStage; }
  __device__ int first_row(int tile) const { return tile % tiles_.of_rows * kRows; }
  __device__ int first_panel(int tile) const { return (tile / tiles_.of_rows * kCluster + rank_) * kPanels; }
  template <class F>
  __device__ void each_tile(F f) const {
    const int clusters = static_cast<int>(gridDim.x) / kCluster, count = tiles_.count();
    for (int tile = static_cast<int>(blockIdx.x) / kCluster; tile < count; tile += clusters) f(tile);
  }

  // --- one thread ---

  __device__ void ask() const {
    constexpr int kPart = kRows / kCluster;
    constexpr auto kStays = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
    Place place;
    each_tile([&](int tile) {
#pragma unroll 1
      for (int stage = 0; stage < stages_; ++stage, place = place.next()) {
        empty_[place.slot].wait(place.turn ^ 1);
        Full& full = full_[place.slot];
        full.arrive_and_expect_tx(Plan::kStage);
        auto* const come = reinterpret_cast<std::uint64_t*>(&full);
        std::uint8_t* const to = at(place.slot);
        cute::SM90_TMA_LOAD_3D::copy(&panels_, come, kStays, to, 0, Panels::first_line(stage), first_panel(tile));
        cute::SM90_TMA_LOAD_MULTICAST_2D::copy(&rows_, come, (1 << kCluster) - 1, kStays,
                                               to + Plan::kOfPanels + rank_ * kPart * kRowBytes, stage * kValues,
                                               first_row(tile) + rank_ * kPart);
      }
    });
  }

  // --- two warp groups ---

  __device__ static unsigned lane() { return threadIdx.x & 31; }
  // This warp's panel, of the block's.
  __device__ static int warp_panel() { return static_cast<int>(threadIdx.x) / 32 - 4; }
  __device__ Half load_half(int slot, int half) const {
    return Panels::load(at(slot) + warp_panel() * Panels::kLines * kLine, half, lane());
  }

  // The stage's rows as wgmma finds them: [8 rows][128 bytes] side by side, pieces of 16 bytes in the accelerator's order.
  __device__ std::uint64_t rows_of(int slot) const {
    return simt::wgmma_matrix(at(slot) + Plan::kOfPanels, 16, 8 * kRowBytes, 1);
  }

  template <std::size_t... kI>
  __device__ static void step(float (&sums)[kSums], const unsigned (&a)[4], std::uint64_t rows, gmma::ScaleOut scale,
                              std::index_sequence<kI...>) {
    Atom<kRows>::fma(a[0], a[1], a[2], a[3], rows, sums[kI]..., scale);
  }
  // Begins the products of half a stage.
  __device__ static void add_half(float (&sums)[kSums], Half& panel, std::uint64_t rows, bool from_zero) {
    constexpr std::uint64_t kStep = 16 * 2 >> 4;
    cute::warpgroup_arrive();
    step(sums, panel.word[0], rows, from_zero ? gmma::ScaleOut::Zero : gmma::ScaleOut::One,
         std::make_index_sequence<kSums>());
    step(sums, panel.word[1], rows + kStep, gmma::ScaleOut::One, std::make_index_sequence<kSums>());
    cute::warpgroup_commit_batch();
  }
  __device__ static void keep_order(float (&sums)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) cute::warpgroup_fence_operand(sums[i]);
  }
  // This warp has read a stage: all blocks may write there again.
  __device__ void give_back(int slot) const {
    if (lane() < kCluster) empty_[slot].arrive(lane());
  }

  __device__ void multiply() const {
    Place place;
    each_tile([&](int tile) {
      float total[kSums];
      if constexpr (Panels::kScaled) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] = 0.0f;
      }
#pragma unroll 1
      for (int first = 0; first < stages_; first += Panels::kSumStages) {
        const TwoFloats scales = scales_of(tile, first);
        float sums[kSums];
        add_group(sums, place, stages_ - first < Panels::kSumStages ? stages_ - first : Panels::kSumStages);
        add_to(total, sums, scales, first == 0);
      }
      finish(tile, total);
    });
  }
  __device__ TwoFloats scales_of(int tile, int stage) const {
    const int panel = t_.panel_begin + first_panel(tile) + warp_panel();
    if constexpr (Panels::kScaled)
      if (panel < t_.panel_end)
        return Panels::scales(t_.panels + static_cast<std::size_t>(panel) * t_.panel_bytes, stage, lane());
    return {1.0f, 1.0f};
  }
  __device__ static void add_to(float (&total)[kSums], const float (&sums)[kSums], TwoFloats scales, bool first) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if constexpr (Panels::kScaled)  // as multiply_float_codes.cu has it
        total[i] += (i % 4 < 2 ? scales.a : scales.b) * sums[i];
      else
        total[i] = first ? sums[i] : total[i] + sums[i];
    }
  }
  // The sums of so many stages. While a half is multiplied, the next one's words are loaded.
  __device__ void add_group(float (&sums)[kSums], Place& place, int stages) const {
    constexpr std::uint64_t kHalf = 32 * 2 >> 4;
    full_[place.slot].wait(place.turn);
    Half even = load_half(place.slot, 0), odd;
    int before = -1;
    keep_order(sums);
#pragma unroll 1
    for (int left = stages; left > 0; --left) {
      const std::uint64_t rows = rows_of(place.slot);
      add_half(sums, even, rows, before < 0);
      cute::warpgroup_wait<1>();
      if (before >= 0) give_back(before);
      before = place.slot;
      odd = load_half(before, 1);
      add_half(sums, odd, rows + kHalf, false);
      cute::warpgroup_wait<1>();
      place = place.next();
      if (left == 1) break;
      full_[place.slot].wait(place.turn);
      even = load_half(place.slot, 0);
    }
    cute::warpgroup_wait<0>();
    keep_order(sums);
    give_back(before);
  }

  __device__ void finish(int tile, const float (&total)[kSums]) const {
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, t = threadIdx.x & 3;
    float* const out = reinterpret_cast<float*>(memory_ + Plan::kStages * Plan::kStage + group * Plan::kSums);
#pragma unroll
    for (int piece = 0; piece < kRows / 64; ++piece) {
      meet_group(group);  // others may still read the piece before
#pragma unroll
      for (int eight = 0; eight < 8; ++eight) {
        const float* const sums = total + (8 * piece + eight) * 4;
        float* const to = out + (8 * eight + 2 * t) * kPitch + 16 * warp + column(lane());
        *reinterpret_cast<TwoFloats*>(to) = {sums[0], sums[2]};
        *reinterpret_cast<TwoFloats*>(to + kPitch) = {sums[1], sums[3]};
      }
      meet_group(group);
      store(out, t_.row_begin + first_row(tile) + 64 * piece, t_.panel_begin + first_panel(tile) + 4 * group);
    }
  }
  __device__ static void meet_group(int group) {
    if (group == 0)
      asm volatile("bar.sync 1, 128;" ::: "memory");
    else
      asm volatile("bar.sync 2, 128;" ::: "memory");
  }
  __device__ void store(const float* sums, int row, int panel) const {
    const int each = t_.paired ? 2 : 1, columns = 64 / each;
    const int left = t_.row_end - row, rows = left < 64 ? left : 64;
    for (int i = static_cast<int>(threadIdx.x) % 128; i < rows * columns; i += 128) {
      const float* const of_row = sums + i / columns * kPitch;
      const int of = i % columns / 16 * each, last = panel + of + each - 1, at = i % 16;
      if (last < t_.panel_end)
        finish_sum(t_, t_.bias, last, row + i / columns, at, of_row[16 * (of + each - 1) + at], of_row[16 * of + at]);
    }
  }

  const CUtensorMap &panels_, &rows_;
  const MatmulTask& t_;
  std::uint8_t* const memory_;
  Full* const full_;
  Empty* const empty_;
  const int rank_, stages_;
  const Tiles<kRows, kCluster> tiles_;
};

template <class Panels, int kRows, int kCluster>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_hopper(const __grid_constant__ CUtensorMap panels, const __grid_constant__ CUtensorMap rows,
                    const __grid_constant__ MatmulTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  Kernel<Panels, kRows, kCluster>(panels, rows, task).run();
#endif
}

// --- the host ---

// What a device says of itself.
struct Hopper {
  bool there = false;
  decltype(&cuTensorMapEncodeTiled) make_map = nullptr;

  static const Hopper& get() {
    static const Hopper of_first = find();
    return of_first;
  }

 private:
  static Hopper find() {
    Hopper out;
    const char* const asked = std::getenv("ESPALIER_WGMMA");
    if (asked != nullptr && std::strcmp(asked, "0") == 0) return out;
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return out;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (major != 9 || minor != 0) return out;
    cudaDriverEntryPointQueryResult found{};
    void* function = nullptr;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
      return out;
    out.make_map = reinterpret_cast<decltype(out.make_map)>(function);
    out.there = true;
    return out;
  }
};

// Boxes of a matrix that the accelerator brings; dimensions from the one whose values lie side by side on.
template <int kDimensions>
struct Map {
  CUtensorMapDataType type;
  const void* first;
  cuuint64_t size[kDimensions], stride[kDimensions - 1];  // strides in bytes
  cuuint32_t box[kDimensions];
  CUtensorMapSwizzle swizzle;

  bool make(CUtensorMap& out) const {
    cuuint32_t steps[kDimensions];
    for (cuuint32_t& step : steps) step = 1;
    return Hopper::get().make_map(&out, type, kDimensions, const_cast<void*>(first), size, stride, box, steps,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  }
};

// How a product is launched in tiles of so many rows, by clusters of so many blocks.
template <class Panels, int kRows, int kCluster>
class Launch {
 public:
  // How long it takes, in rows of a tile: each costs its rows and what it takes to begin and to end it.
  static int cost(const MatmulTask& t) {
    constexpr int kOfTile = 16;
    return (tiles(t) + clusters() - 1) / clusters() * (kRows + kOfTile);
  }
  // Whether there are tiles for half of the places.
  static bool is_enough(const MatmulTask& t) { return 2 * tiles(t) >= clusters(); }

  static bool go(simt::Stream stream, const MatmulTask& t) {
    CUtensorMap panels, rows;
    if (!panels_of(t).make(panels) || !rows_of(t).make(rows)) return false;
    const auto kernel = multiply_hopper<Panels, kRows, kCluster>;
    take_room();
    How how(tiles(t) < clusters() ? tiles(t) : clusters());
    how.config.stream = stream;
    if (cudaLaunchKernelEx(&how.config, kernel, panels, rows, t) == cudaSuccess) return true;
    cudaGetLastError();
    return false;
  }

 private:
  // A launch of so many clusters.
  struct How {
    cudaLaunchAttribute cluster{};
    cudaLaunchConfig_t config{};
    explicit How(int clusters) {
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {kCluster, 1, 1};
      config.gridDim = dim3(static_cast<unsigned>(kCluster * clusters));
      config.blockDim = dim3(kThreads);
      config.dynamicSmemBytes = Room<Panels, kRows>::kBytes;
      config.attrs = &cluster;
      config.numAttrs = 1;
    }
    How(const How&) = delete;
    How& operator=(const How&) = delete;
  };

  static void take_room() {  // on the device that is chosen
    cudaFuncSetAttribute(multiply_hopper<Panels, kRows, kCluster>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         Room<Panels, kRows>::kBytes);
  }
  static int tiles(const MatmulTask& t) { return Tiles<kRows, kCluster>(t).count(); }
  // As many as find room at the same time.
  static int clusters() {
    static const int most = [] {
      take_room();
      const How how(1);
      int found = 0;
      const cudaError_t asked =
          cudaOccupancyMaxActiveClusters(&found, multiply_hopper<Panels, kRows, kCluster>, &how.config);
      return asked == cudaSuccess && found > 0 ? found : 1;
    }();
    return most;
  }

  static Map<3> panels_of(const MatmulTask& t) {
    return {
        CU_TENSOR_MAP_DATA_TYPE_UINT32,
        t.panels + static_cast<std::size_t>(t.panel_begin) * t.panel_bytes,
        {kLine / 4, static_cast<cuuint64_t>(Panels::lines(t.k)), static_cast<cuuint64_t>(t.panel_end - t.panel_begin)},
        {kLine, t.panel_bytes},
        {kLine / 4, Panels::kLines, kPanels},
        CU_TENSOR_MAP_SWIZZLE_64B};
  }
  static Map<2> rows_of(const MatmulTask& t) {
    return {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            static_cast<const std::uint8_t*>(t.x) + static_cast<std::size_t>(t.row_begin) * t.x_stride,
            {static_cast<cuuint64_t>(t.k), static_cast<cuuint64_t>(t.row_end - t.row_begin)},
            {t.x_stride},
            {kValues, kRows / kCluster},
            CU_TENSOR_MAP_SWIZZLE_128B};
  }
};

// How products of a type may be launched, from those on that ask least of the second-level cache. FP8 has to scale sums, whose
// registers would not last for 192 rows; its panels are half as many bytes.
template <class... L>
struct Launches {};
template <class Panels>
struct LaunchesOf;
template <>
struct LaunchesOf<Bf16Panels> {
  using P = Bf16Panels;
  using All = Launches<Launch<P, 192, 4>, Launch<P, 192, 2>, Launch<P, 128, 2>, Launch<P, 64, 2>>;
};
template <>
struct LaunchesOf<Fp8Panels> {
  using P = Fp8Panels;
  using All = Launches<Launch<P, 128, 4>, Launch<P, 128, 2>, Launch<P, 64, 2>>;
};

// Calls f(launch) with the quickest; of those alike with the first.
template <class... L, class F>
bool with_quickest(Launches<L...>, const MatmulTask& t, F f) {
  const int least = std::min({L::cost(t)...});
  bool found = false, result = false;
  const auto take = [&](auto launch) {
    if (found || launch.cost(t) != least) return;
    found = true;
    result = f(launch);
  };
  (take(L()), ...);
  return result;
}
// Whether f(launch) holds for all of them.
template <class... L, class F>
bool with_each(Launches<L...>, F f) {
  return (f(L()) && ...);
}

// A device's answer to settle_products(), by its number.
constexpr int kMostDevices = 64;
template <class Panels>
bool agrees[kMostDevices] = {};
template <class Panels>
bool this_device_agrees() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && device < kMostDevices && agrees<Panels>[device];
}

class Random {
 public:
  std::uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }

 private:
  std::uint32_t state_ = 1;
};
std::uint16_t random_bf16(Random& random) {
  const std::uint32_t bits = random.next();
  return static_cast<std::uint16_t>((bits >> 16 & 0x807fu) | (0x3b80u + (bits >> 8 & 7u) * 0x80u));
}
void fill(Random& random, std::span<std::uint8_t> memory, Bf16Panels) {
  for (std::size_t i = 0; i < memory.size(); i += 2) {
    const std::uint16_t number = random_bf16(random);
    std::memcpy(&memory[i], &number, 2);
  }
}
void fill(Random& random, std::span<std::uint8_t> memory, Fp8Panels) {
  for (std::size_t i = 0; i < memory.size(); i += 4) {
    const bool is_scale = i % Fp8Panels::Codes::kBlockBytes < kLine;
    const std::uint32_t bits = random.next(), word = is_scale ? 0x3c000000u | bits >> 9 : bits & 0xfefefefeu;  // no NaN
    std::memcpy(&memory[i], &word, 4);
  }
}

// A product of numbers of many sizes, whose sums lose bits in every step, in memory of its own.
template <class Panels>
class Trial {
 public:
  Trial() {
    const std::size_t panels = kOutputs / 16 * panel_bytes(), rows = kRows * row_bytes(), out = kRows * kOutputs * 4;
    std::vector<std::uint8_t> numbers(panels + rows);
    Random random;
    fill(random, std::span(numbers).first(panels), Panels());
    fill(random, std::span(numbers).subspan(panels), Bf16Panels());
    if (cudaMalloc(&memory_, panels + rows + out) != cudaSuccess) return;
    if (cudaMemcpy(memory_, numbers.data(), panels + rows, cudaMemcpyHostToDevice) != cudaSuccess) return;
    task_.panels = memory_;
    task_.panel_bytes = panel_bytes();
    task_.k = kK;
    task_.outputs = task_.out_stride = kOutputs;
    task_.panel_end = kOutputs / 16;
    task_.x = memory_ + panels;
    task_.x_stride = row_bytes();
    task_.row_end = kRows;
    task_.out = reinterpret_cast<float*>(memory_ + panels + rows);
    there_ = true;
  }
  ~Trial() { cudaFree(memory_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // What a kernel makes of it; empty: it failed.
  template <class Multiply>
  std::vector<float> result(simt::Stream stream, Multiply multiply) const {
    std::vector<float> out(kRows * kOutputs);
    if (!there_ || cudaMemsetAsync(task_.out, 0xff, out.size() * 4, stream) != cudaSuccess) return {};
    if (!multiply(stream, task_)) return {};
    if (cudaMemcpyAsync(out.data(), task_.out, out.size() * 4, cudaMemcpyDeviceToHost, stream) != cudaSuccess)
      return {};
    return ends(stream) ? out : std::vector<float>();
  }

 private:
  // A kernel that waits for what never comes would keep whoever opens the device for ever.
  static bool ends(simt::Stream stream) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() > late) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return cudaStreamQuery(stream) == cudaSuccess;
  }
  static constexpr std::size_t kK = Panels::kScaled ? 2048 + 128 : 2048 + 96, kOutputs = 272, kRows = 80;
  static constexpr std::size_t panel_bytes() { return static_cast<std::size_t>(Panels::lines(kK)) * kLine; }
  static constexpr std::size_t row_bytes() { return kK * 2; }
  std::uint8_t* memory_ = nullptr;
  MatmulTask task_{};
  bool there_ = false;
};

void multiply_by_mma(simt::Stream stream, const MatmulTask& task, DType type) {
  const MultiplyWork work{task, nullptr, nullptr, nullptr, 0, 0};
  type == DType::bf16 ? multiply_tensor(stream, work) : multiply_float_codes(type)(stream, work);
}

// settle_products() of one type.
template <class Panels>
const char* settle(simt::Stream stream, int device) {
  if (agrees<Panels>[device]) return nullptr;
  auto trial = std::make_unique<Trial<Panels>>();
  const auto by_mma = trial->result(stream, [](simt::Stream on, const MatmulTask& t) {
    multiply_by_mma(on, t, Panels::kType);
    return true;
  });
  agrees<Panels>[device] = !by_mma.empty() && with_each(typename LaunchesOf<Panels>::All(), [&](auto launch) {
    return trial->result(stream, launch.go) == by_mma;
  });
  cudaGetLastError();  // of a trial that was refused
  const cudaError_t state = cudaStreamQuery(stream);
  if (state == cudaSuccess) return nullptr;
  trial.release();  // freeing its memory would wait for the kernel
  return state == cudaErrorNotReady ? "a trial of wgmma does not end; ESPALIER_WGMMA=0 does without it"
                                    : "a trial of wgmma failed; ESPALIER_WGMMA=0 does without it";
}

// f(how panels of a type are read); false where wgmma does not take them.
template <class F>
bool with_type(DType type, F f) {
  if (type == DType::bf16) return f(Bf16Panels());
  return type == DType::f8_128 && f(Fp8Panels());
}

}  // namespace

const char* settle_products(simt::Stream stream) {
  int device = 0;
  if (!Hopper::get().there || cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) return nullptr;
  const char* const wrong = settle<Bf16Panels>(stream, device);
  return wrong != nullptr ? wrong : settle<Fp8Panels>(stream, device);
}

bool multiply_many_by_wgmma(simt::Stream stream, const MultiplyWork& work, DType type) {
  const MatmulTask& t = work.of;
  if (!Hopper::get().there || work.begin != nullptr) return false;
  return with_type(type, [&]<class Panels>(Panels) {
    return this_device_agrees<Panels>() && with_quickest(typename LaunchesOf<Panels>::All(), t, [&](auto launch) {
             return launch.is_enough(t) && launch.go(stream, t);
           });
  });
}

bool multiply_by_wgmma(simt::Stream stream, const MultiplyTask& task) {
  const MatmulTask& t = task.of;
  if (!Hopper::get().there) return false;
  return with_type(task.type, [&]<class Panels>(Panels) {
    if (t.row_end <= t.row_begin || t.panel_end <= t.panel_begin) return true;
    return with_quickest(typename LaunchesOf<Panels>::All(), t, [&](auto launch) { return launch.go(stream, t); });
  });
}

}  // namespace espalier::cuda

#else

namespace espalier::cuda {

const char* settle_products(simt::Stream) {
  return nullptr;
}
bool multiply_many_by_wgmma(simt::Stream, const MultiplyWork&, DType) {
  return false;
}
bool multiply_by_wgmma(simt::Stream, const MultiplyTask&) {
  return false;
}

}  // namespace espalier::cuda

#endif
