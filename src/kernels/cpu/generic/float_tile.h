// float_tile.h: micro-kernels that multiply floats. Weights of 16 bits are widened in registers, quantised ones decoded
// there; for many rows the latter are unpacked to panels of float32 first (matmul.h), with the same bits.
#pragma once

#include <type_traits>

#include "kernels/cpu/generic/choose_format.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::ESPALIER_ISA {

// The micro-kernel for weights that are multiplied as floats.
template <DType kType>
struct FloatTile : WithoutRest {
  static constexpr int kMaxRows = kType == DType::f32 ? Simd::kFloatRows : Simd::kHalfRows, kRowsTogether = 1;
  static constexpr int panels(int rows) {
    return kType == DType::f32 ? Simd::float_panels(rows) : Simd::half_panels(rows);
  }
  static constexpr int kStep = kType == DType::bf16 ? 2 : 1;  // values of K that lie side by side
  static constexpr int kStepBytes = kType == DType::f16 ? 32 : 64;
  using Unpacked = void;
  static constexpr std::int64_t offset(std::int64_t k) { return k / kStep * kStepBytes; }

  // Weights of value `i` of a step.
  [[gnu::always_inline]] static inline Simd::F load(const std::uint8_t* w, int i) {
    if constexpr (kType == DType::f32) return Simd::load(reinterpret_cast<const float*>(w));
    if constexpr (kType == DType::f16) return Simd::load_f16(halves(w));
    return i == 0 ? Simd::load_bf16_even(halves(w)) : Simd::load_bf16_odd(halves(w));
  }

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                                const PanelPart<kPanels>& part) {
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<float>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = part.at[p];
    Tile<kRows, kPanels> sums = tile;  // nobody else sees it, so it stays in registers
    for (std::int64_t k = part.begin; k < part.end; k += kStep) {
      each<kStep>([&](auto i) {
        if (k + i >= part.end) return;  // rows end where K does
        Simd::F weight[kPanels];
        each<kPanels>([&](auto p) { weight[p] = load(w[p], i); });
        each<kRows>([&](auto r) {
          const Simd::F a = Simd::set1(x[r][k + i]);
          each<kPanels>([&](auto p) { sums.acc[r][p] = Simd::fma(weight[p], a, sums.acc[r][p]); });
        });
      });
      for (auto& at : w) at += kStepBytes;
    }
    tile = sums;
  }
};

// Whether a format's minimum is scale * -zero, as which zero() gives it exactly.
template <class Format>
inline constexpr bool kColumnZero = requires { Format::kColumnZero; };

// Quantised weights, float activations: weights are decoded in registers, value = scale * (code - zero) + minimum, with
// both products exact in f32 (see tensor/decode.h), so the weights are exactly the decoded ones.
template <class Format>
struct ExactTile : WithoutRest {
  static constexpr int kMaxRows = Simd::kFloatRows, kRowsTogether = 1;
  static constexpr int panels(int rows) { return Simd::float_panels(rows); }
  using Unpacked = FloatTile<DType::f32>;
  static constexpr std::int64_t offset(std::int64_t k) { return k / Format::kBlock * Format::kBytes; }

  // Four weights of each column: those of step `step` of a block.
  [[gnu::always_inline]] static inline void load(const std::uint8_t* block, int step, Simd::F (&weight)[4]) {
    if constexpr (has_float_codes(Format::kType)) {
      const Simd::F scale = Format::scale(block, 0, 0);
      each<4>([&](auto b) { weight[b] = Simd::mul(scale, Format::value(block, step, b)); });
    } else {
      load_whole(block, step, weight);
    }
  }
  [[gnu::always_inline]] static inline void load_whole(const std::uint8_t* block, int step, Simd::F (&weight)[4]) {
    const int s = step / 8, j = step % 8, g = Format::kGroups == 2 ? j / 4 : 0;
    const Simd::B codes = Format::codes(block, s, j);
    const Simd::F scale = Format::scale(block, s, g);
    Simd::F zero = Simd::set1(static_cast<float>(Format::kZeroPoint));
    if constexpr (kColumnZero<Format>) zero = Simd::add(zero, Format::zero(block));
    each<4>([&](auto b) {
      weight[b] = Simd::mul(scale, Simd::sub(Simd::byte_to_float(codes, b), zero));
      if constexpr (Format::kHasMinimum && !kColumnZero<Format>)
        weight[b] = Simd::add(weight[b], Format::minimum(block, s, g));
    });
  }

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                                const PanelPart<kPanels>& part) {
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<float>(row + r);
    Tile<kRows, kPanels> sums = tile;  // nobody else sees it, so it stays in registers
    for (std::int64_t k = part.begin; k < part.end; k += Format::kBlock) {
      const std::int64_t offset = (k - part.begin) / Format::kBlock * Format::kBytes;
      for (int step = 0; step < Format::kBlock / 4; ++step)
        each<kPanels>([&](auto p) {
          Simd::F weight[4];
          load(part.at[p] + offset, step, weight);
          each<4>([&](auto b) {
            each<kRows>([&](auto r) {
              sums.acc[r][p] = Simd::fma(weight[b], Simd::set1(x[r][k + 4 * step + b]), sums.acc[r][p]);
            });
          });
        });
    }
    tile = sums;
  }

  static void unpack(const std::uint8_t* panel, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
    auto* to = reinterpret_cast<float*>(out);
    for (std::int64_t k = begin; k < end; k += 4, to += 64) {
      Simd::F weight[4];
      load(panel + k / Format::kBlock * Format::kBytes, static_cast<int>(k % Format::kBlock / 4), weight);
      each<4>([&](auto b) { Simd::store(to + 16 * b, weight[b]); });
    }
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
