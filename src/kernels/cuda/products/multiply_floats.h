// multiply_floats.h: products of rows of floats with panels of any type, one multiply-add after the other in the order of K:
// what kernels/cpu/generic/float_tile.h computes.
//
// A block of threads takes kPanels panels, or a pair. Of kValues values of K a round, its warps decode weights to floats in
// shared memory and put the rows beside them, while others, or the same ones, fold those of the round before: one barrier a
// round. A thread folds two columns of a panel and kRows rows, a warp 16 columns and 4 * kRows rows.
// What is decoded costs less than the chain of multiply-adds where rows are few, and is shared by many rows else.
// Threads: see Shape. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_work.h"

namespace espalier::cuda::floats {

// Weights that are floats of 32 or 16 bits, `four`: of k and the three behind it; zeros behind the last one.
template <DType kType>
struct Plain {
  using Read = kernels::fragments::Simd;
  ESPALIER_ON_DEVICE static void four(const std::uint8_t* panel, std::int64_t k, std::int64_t end,
                                      Read::F (&weight)[4]) {
    ESPALIER_UNROLL(4)
    for (int i = 0; i < 4; ++i) weight[i] = k + i < end ? one(panel, k + i) : Read::zero();
  }

 private:
  ESPALIER_ON_DEVICE static Read::F one(const std::uint8_t* panel, std::int64_t k) {
    if constexpr (kType == DType::f32) return Read::load(reinterpret_cast<const float*>(panel) + 16 * k);
    if constexpr (kType == DType::f16) return Read::load_f16(reinterpret_cast<const std::uint16_t*>(panel) + 16 * k);
    const Read::B pair = Read::bload(panel + k / 2 * 64);
    return Read::as_floats(k % 2 == 0 ? Read::shift_left(pair, 16) : Read::band(pair, {0xffff0000u, 0xffff0000u}));
  }
};

// Whether a format's minimum is scale * -zero, as which zero() gives it exactly.
template <class Format>
inline constexpr bool kColumnZero = requires { Format::kColumnZero; };

// Quantised weights, and those whose codes are floats.
template <class Format>
struct Decoded {
  using Read = kernels::fragments::Simd;
  ESPALIER_ON_DEVICE static void four(const std::uint8_t* panel, std::int64_t k, std::int64_t, Read::F (&weight)[4]) {
    const std::uint8_t* const block = panel + k / Format::kBlock * Format::kBytes;
    const int step = static_cast<int>(k % Format::kBlock) / 4;
    if constexpr (has_float_codes(Format::kType)) {
      const Read::F scale = Format::scale(block, 0, 0);
      ESPALIER_UNROLL(4)
      for (int i = 0; i < 4; ++i) weight[i] = Read::mul(scale, Format::value(block, step, i));
    } else {
      const int s = step / 8, j = step % 8, g = Format::kGroups == 2 ? j / 4 : 0;
      const Read::B codes = Format::codes(block, s, j);
      const Read::F scale = Format::scale(block, s, g);
      Read::F zero = Read::set1(static_cast<float>(Format::kZeroPoint));
      if constexpr (kColumnZero<Format>) zero = Read::add(zero, Format::zero(block));
      ESPALIER_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        weight[i] = Read::mul(scale, Read::sub(Read::byte_to_float(codes, i), zero));
        if constexpr (Format::kHasMinimum && !kColumnZero<Format>)
          weight[i] = Read::add(weight[i], Format::minimum(block, s, g));
      }
    }
  }
};

// How a block of threads is made up. Few rows: eight warps decode, others fold.
template <bool kFew>
struct Shape {
  static constexpr int kRows = kFew ? 1 : 8;        // of a thread
  static constexpr int kValues = kFew ? 256 : 64;   // of K, a round
  static constexpr int kDecoders = 8, kGroup = 72;  // warps of a team; floats of 16 columns by four k, with a gap
  static constexpr int kRowFloats = kValues + 4;
  static constexpr int kWeights = kValues / 4 * kGroup;  // of a panel
  int panels;                                            // of a block
  int row_warps;                                         // of each panel
  ESPALIER_EITHER int rows() const { return row_warps * 4 * kRows; }
  ESPALIER_EITHER int fold_warps() const { return panels * row_warps; }
  ESPALIER_EITHER int decode_warps() const { return kFew ? panels * kDecoders : fold_warps(); }
  ESPALIER_EITHER int threads() const { return 32 * (kFew ? fold_warps() + decode_warps() : fold_warps()); }
  ESPALIER_EITHER int set() const { return panels * kWeights + rows() * kRowFloats; }  // floats of a round
};

// What a thread of it does.
template <class Weights, bool kFew>
class Kernel {
 public:
  using Plan = Shape<kFew>;
  using Read = kernels::fragments::Simd;
  ESPALIER_ON_DEVICE Kernel(const MultiplyWork& work, const Plan& plan, const BlockRows& rows)
      : t_(work.of),
        plan_(plan),
        rows_(rows),
        first_panel_(work.of.panel_begin + simt::block_x() * plan.panels),
        warp_(simt::thread() / 32),
        fold_warp_(kFew ? warp_ - plan.decode_warps() : warp_) {}

  ESPALIER_ON_DEVICE void run() {
    const auto rounds = static_cast<int>((t_.k + Plan::kValues - 1) / Plan::kValues);
    for (int round = 0; round <= rounds; ++round) {
      simt::meet();
      if (decodes() && round < rounds) decode(round);
      if (folds() && round > 0) fold(round - 1);
    }
    finish();
  }

 private:
  ESPALIER_ON_DEVICE bool decodes() const { return warp_ < plan_.decode_warps(); }
  ESPALIER_ON_DEVICE bool folds() const { return fold_warp_ >= 0; }
  ESPALIER_ON_DEVICE int fold_panel() const { return fold_warp_ % plan_.panels; }
  // Its i-th row of the block's.
  ESPALIER_ON_DEVICE int fold_row(int i) const {
    return fold_warp_ / plan_.panels * 4 * Plan::kRows + 4 * i + simt::thread() % 4;
  }
  ESPALIER_ON_DEVICE float* weights(int round) const { return simt::shared<float>() + round % 2 * plan_.set(); }
  ESPALIER_ON_DEVICE float* x(int round) const { return weights(round) + plan_.panels * Plan::kWeights; }

  ESPALIER_ON_DEVICE void decode(int round) const {
    constexpr int kFours = Plan::kValues / 4;
    const std::int64_t first = std::int64_t{round} * Plan::kValues;
    const int t = simt::thread() % 4;
    ESPALIER_UNROLL(2)
    for (int i = 4 * warp_ + t; i < plan_.panels * kFours; i += 4 * plan_.decode_warps()) {
      const int panel = first_panel_ + i / kFours, four = i % kFours;
      const std::int64_t k = first + 4 * four;
      if (k >= t_.k || panel >= t_.panel_end) continue;
      Read::F weight[4];
      Weights::four(rows_.panels + static_cast<std::size_t>(panel) * t_.panel_bytes, k, t_.k, weight);
      float* const to = weights(round) + i / kFours * Plan::kWeights + four * Plan::kGroup + Read::column();
      ESPALIER_UNROLL(4)
      for (int j = 0; j < 4; ++j) *reinterpret_cast<Read::F*>(to + 16 * j) = weight[j];
    }
    const int count = rows_.end - rows_.begin, threads = 32 * plan_.decode_warps();
    for (int i = simt::thread(); i < count * Plan::kValues; i += threads) {
      const int row = i / Plan::kValues, at = i % Plan::kValues;
      const auto* const from = reinterpret_cast<const float*>(
          static_cast<const std::byte*>(t_.x) + static_cast<std::size_t>(rows_.begin + row) * t_.x_stride);
      x(round)[row * Plan::kRowFloats + at] = first + at < t_.k ? from[first + at] : 0.0f;
    }
  }

  ESPALIER_ON_DEVICE void fold(int round) {
    const std::int64_t left = t_.k - std::int64_t{round} * Plan::kValues;
    const int fours = left < Plan::kValues ? (static_cast<int>(left) + 3) / 4 : Plan::kValues / 4;
    const float* const of_panel = weights(round) + fold_panel() * Plan::kWeights + Read::column();
    const float* const of_row = x(round) + fold_row(0) * Plan::kRowFloats;
    ESPALIER_UNROLL((kFew ? 4 : 1))
    for (int four = 0; four < fours; ++four) {
      Read::F weight[4];
      ESPALIER_UNROLL(4)
      for (int j = 0; j < 4; ++j)
        weight[j] = *reinterpret_cast<const Read::F*>(of_panel + four * Plan::kGroup + 16 * j);
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Plan::kRows; ++i) {
        const Four value = *reinterpret_cast<const Four*>(of_row + 4 * i * Plan::kRowFloats + 4 * four);
        ESPALIER_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          acc_[i].a = fmaf(weight[j].a, value.at[j], acc_[i].a);
          acc_[i].b = fmaf(weight[j].b, value.at[j], acc_[i].b);
        }
      }
    }
  }

  ESPALIER_ON_DEVICE void finish() {
    const BlockSums sums{plan_.panels};
    simt::meet();  // others may still fold
    if (folds()) {
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Plan::kRows; ++i)
        *reinterpret_cast<Read::F*>(sums.at(fold_row(i), fold_panel(), Read::column())) = acc_[i];
    }
    simt::meet();
    sums.finish(t_, rows_, first_panel_);
  }

  struct alignas(16) Four {
    float at[4];
  };

  const MatmulTask& t_;
  const Plan& plan_;
  const BlockRows rows_;
  const int first_panel_, warp_, fold_warp_;
  Read::F acc_[Plan::kRows] = {};
};

template <class Weights, bool kFew>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS((kFew ? 640 : 256), 1) void multiply(MultiplyWork work, Shape<kFew> plan) {
  const BlockRows rows = find_rows(work, plan.rows());
  if (rows.begin < rows.end) Kernel<Weights, kFew>(work, plan, rows).run();
}

template <class Weights, bool kFew>
void launch(simt::Stream stream, const MultiplyWork& work, const Shape<kFew>& plan) {
  const auto columns = static_cast<unsigned>((work.panels() + plan.panels - 1) / plan.panels);
  simt::launch(stream,
               {columns, work.tiles(plan.rows()), static_cast<unsigned>(plan.threads()),
                static_cast<std::size_t>(2 * plan.set()) * sizeof(float)},
               multiply<Weights, kFew>, work, plan);
}

template <class Weights>
void launch(simt::Stream stream, const MultiplyWork& work) {
  const int rows = work.usual_rows();
  if (rows <= 8)
    launch<Weights, true>(stream, work, {work.of.paired ? 2 : 1, (rows + 3) / 4});
  else
    launch<Weights, false>(stream, work, {4, 2});
}

}  // namespace espalier::cuda::floats
