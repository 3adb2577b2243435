// whole_numbers.h: sums of codes and activations in whole numbers, 32 values of K at a time, by tensor cores, and how they are
// scaled: what kernels/cpu/generic/integer_tile.h computes, with the same roundings.
//
// Neighbour 4 g + t of 32 has the sums of columns 2 g and 2 g + 1 of a panel with rows 2 t and 2 t + 1 of eight.
// Threads: all of a warp. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_work.h"

namespace espalier::cuda {

// Codes become signed bytes, their zero point taken off. Where it halves a power of two, they are moved to the top of their
// bytes and flip a bit, which costs no more than reading them; so they, and sums, are 2^kRaised as large.
template <class Format>
inline constexpr bool kFlips =
    Format::kZeroPoint == 128 || (Format::kZeroPoint > 0 && Format::kMostCode == 2 * Format::kZeroPoint - 1);
constexpr int doublings(int from, int to) {
  return from == to ? 0 : 1 + doublings(2 * from, to);
}
template <class Format>
constexpr int raised() {
  if constexpr (kFlips<Format>) return doublings(Format::kZeroPoint, 128);
  return 0;
}
template <class Format>
inline constexpr int kRaised = raised<Format>();

template <class Format>
ESPALIER_ON_DEVICE inline unsigned as_signed(unsigned codes) {
  constexpr unsigned kTop = 0x80808080u;
  if constexpr (kFlips<Format>) return (codes << kRaised<Format>)^kTop;
  static_assert(kFlips<Format> || Format::kMostCode < 128);
  if constexpr (Format::kZeroPoint > 0) return ((codes | kTop) - Format::kZeroPoint * 0x01010101u) ^ kTop;
  return codes;
}

// Registers of a panel's 32 values: two words along K of each column.
struct PanelWords {
  unsigned word[4];

  template <class Format>
  ESPALIER_ON_DEVICE static PanelWords of(const std::uint8_t* block, int sub) {
    const int t = simt::thread() & 3;
    const auto low = Format::codes(block, sub, t), high = Format::codes(block, sub, t + 4);
    return {{as_signed<Format>(low.a), as_signed<Format>(low.b), as_signed<Format>(high.a), as_signed<Format>(high.b)}};
  }
};

// Registers of eight rows' 32 values: two words of row g.
struct RowWords {
  unsigned word[2];
  ESPALIER_ON_DEVICE static RowWords of(const std::uint8_t* values) {
    const auto* words = reinterpret_cast<const unsigned*>(values) + (simt::thread() & 3);
    return {{words[0], words[4]}};
  }
};

// sums[i] += ... of a group of a format's values: all 32, or the first or the last 16.
template <class Format>
ESPALIER_ON_DEVICE inline void add_products(int (&sums)[4], const PanelWords& panel, const RowWords& rows, int group) {
  if constexpr (Format::kGroups == 1) {
    simt::mma_s8(sums, panel.word, rows.word);
  } else {
    const unsigned words[2] = {panel.word[2 * group], panel.word[2 * group + 1]};
    simt::mma_s8(sums, words, rows.word[group]);
  }
}

template <class Format>
ESPALIER_ON_DEVICE inline int sum_of_values(const ActivationScale& x, int group) {
  return Format::kGroups == 2 ? x.sum[group] : x.sum[0] + x.sum[1];
}

// acc with a group's sum.
template <class Format>
ESPALIER_ON_DEVICE inline float add_scaled(float acc, float sum, float scale, float minimum, const ActivationScale& x,
                                           int group) {
  acc = fmaf(scale * x.scale, sum, acc);
  if constexpr (Format::kHasMinimum) {
    const float weighted =
        Format::kGroups == 2 ? x.scale * static_cast<float>(sum_of_values<Format>(x, group)) : x.weighted;
    acc = fmaf(minimum, weighted, acc);
  }
  return acc;
}

template <class Format>
ESPALIER_ON_DEVICE inline const std::uint8_t* block_of(const std::uint8_t* panel, int sub_block) {
  return panel + std::int64_t{sub_block / Format::kSubs} * Format::kBytes;
}

// Where rows of bytes, or the low bytes of rows of two, lie.
struct ByteRows {
  const std::uint8_t* first;
  std::size_t stride, scales;
  ESPALIER_ON_DEVICE ByteRows(const MatmulTask& t, int row, bool low)
      : first(static_cast<const std::uint8_t*>(t.x) + static_cast<std::size_t>(row) * t.x_stride +
              (low ? WideLayout::of(t.k).low : 0)),
        stride(t.x_stride),
        scales(ActivationLayout::of(t.k).scales) {}
  ESPALIER_ON_DEVICE const std::uint8_t* values(int row, int sub_block) const {
    return first + static_cast<std::size_t>(row) * stride + std::size_t{32} * static_cast<unsigned>(sub_block);
  }
  ESPALIER_ON_DEVICE const ActivationScale& scale(int row, int sub_block) const {
    return reinterpret_cast<const ActivationScale*>(first + static_cast<std::size_t>(row) * stride + scales)[sub_block];
  }
};

// A word of a row's marks: which of 64 blocks have low bytes.
ESPALIER_ON_DEVICE inline std::uint64_t marks_of(const MatmulTask& t, int row, int word) {
  const auto* of_row = static_cast<const std::uint8_t*>(t.x) + static_cast<std::size_t>(row) * t.x_stride;
  return reinterpret_cast<const std::uint64_t*>(of_row + WideLayout::of(t.k).marks)[word];
}

}  // namespace espalier::cuda
