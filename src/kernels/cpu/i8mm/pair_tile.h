// pair_tile.h: rows in pairs: one instruction multiplies two rows of eight activations with two columns of eight codes.
//
// A panel's groups are four values of K of sixteen columns; two groups, four bytes of each column in turn, are the
// eight values of K that the instruction wants ("octet"). So per octet and two columns one operand is woven from two
// groups, for all rows of a tile, or, where many rows need it, once for all rows of a task (OctetForm). A product gives
// [column][row]: two of them, unzipped, are four columns of each row.
// The order of operations per element is that of generic/integer_tile.h, so the bits are those of neon/.
#pragma once

#include <type_traits>

#include "kernels/cpu/generic/integer_tile.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::i8mm {

// Two columns by an octet, twice: columns 4 q, 4 q + 1 and 4 q + 2, 4 q + 3.
struct Octet {
  uint8x16_t v[2];
};

// The operands of a format, eight values of K of two columns each.
template <class Format>
struct Octets {
  static constexpr bool kUnpacked = false;
  // Octet t of sub-block s. Of the groups' other columns nothing is computed once this is inlined.
  [[gnu::always_inline]] static inline Octet at(const std::uint8_t* block, int s, int t, int q) {
    const uint32x4_t low = vreinterpretq_u32_u8(Format::codes(block, s, 2 * t).v[q]),
                     high = vreinterpretq_u32_u8(Format::codes(block, s, 2 * t + 1).v[q]);
    return {{vreinterpretq_u8_u32(vzip1q_u32(low, high)), vreinterpretq_u8_u32(vzip2q_u32(low, high))}};
  }
};

// 32 values of K of a panel, unpacked: octets [4][columns / 4] | scales f32[kGroups][16] | minima f32[kGroups][16].
template <class Format>
struct OctetForm {
  static constexpr DType kType = Format::kType;
  static constexpr int kBlock = 32, kSubs = 1, kGroups = Format::kGroups, kZeroPoint = Format::kZeroPoint,
                       kMostCode = Format::kMostCode;
  static constexpr bool kHasMinimum = Format::kHasMinimum;
  static constexpr int kScales = 512, kBytes = kScales + kGroups * (kHasMinimum ? 2 : 1) * 64;

  static const float* scales(const std::uint8_t* b) { return reinterpret_cast<const float*>(b + kScales); }
  static Simd::F scale(const std::uint8_t* b, int, int g) { return Simd::load(scales(b) + 16 * g); }
  static Simd::F minimum(const std::uint8_t* b, int, int g) { return Simd::load(scales(b) + 16 * (kGroups + g)); }

  static void unpack(const std::uint8_t* block, int s, std::uint8_t* out) {
    each<4>([&](auto t) __attribute__((always_inline)) {
      const Simd::B low = Format::codes(block, s, 2 * t), high = Format::codes(block, s, 2 * t + 1);
      each<4>([&](auto q) __attribute__((always_inline)) {
        const uint32x4_t a = vreinterpretq_u32_u8(low.v[q]), b = vreinterpretq_u32_u8(high.v[q]);
        std::uint8_t* to = out + (4 * t + q) * 32;
        vst1q_u8(to, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
        vst1q_u8(to + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
      });
    });
    auto* to = reinterpret_cast<float*>(out + kScales);
    for (int g = 0; g < kGroups; ++g) {
      Simd::store(to + 16 * g, Format::scale(block, s, g));
      if constexpr (kHasMinimum) Simd::store(to + 16 * (kGroups + g), Format::minimum(block, s, g));
    }
  }
};
// The operands of a format, eight values of K of two columns each.
template <class Format>
struct Octets<OctetForm<Format>> {
  static constexpr bool kUnpacked = true;
  [[gnu::always_inline]] static inline Octet at(const std::uint8_t* block, int, int t, int q) {
    const std::uint8_t* from = block + (4 * t + q) * 32;
    return {{vld1q_u8(from), vld1q_u8(from + 16)}};
  }
};

// The micro-kernel for rows in pairs.
template <class Format>
struct PairTile : WithoutRest {
  static constexpr bool kUnpacked = Octets<Format>::kUnpacked;
  static constexpr int kMaxRows = 4, kRowsTogether = 2;
  static constexpr int panels(int) { return 1; }
  static constexpr std::int64_t offset(std::int64_t k) { return k / Format::kBlock * Format::kBytes; }
  using Unpacked = std::conditional_t<kUnpacked, void, PairTile<OctetForm<Format>>>;

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                                const PanelPart<kPanels>& part) {
    static_assert(kPanels == 1);
    if constexpr (kRows == 1 && !kUnpacked) {  // half of each product would be thrown away
      IntegerTile<Format>::template add<1, 1>(tile, t, row, part);
    } else {
      add_pairs<kRows>(tile.acc, t, row, part);
    }
  }

  static void unpack(const std::uint8_t* panel, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
    for (std::int64_t k = begin; k < end; k += 32, out += OctetForm<Format>::kBytes)
      OctetForm<Format>::unpack(panel + k / Format::kBlock * Format::kBytes, static_cast<int>(k % Format::kBlock / 32),
                                out);
  }

 private:
  static constexpr int kOctets = 4 / Format::kGroups;  // of a group of values with one scale

  template <int kRows>
  struct Rows {  // the last one again where one is missing to a pair
    static constexpr int kPairs = (kRows + 1) / 2;
    const std::int8_t* at[2 * kPairs];
    std::size_t values, scales;
    const ActivationScale& scale(int r) const { return *reinterpret_cast<const ActivationScale*>(at[r] + scales); }
    // Eight values of two rows.
    [[gnu::always_inline]] int8x16_t pair(int p, int octet) const {
      const std::size_t from = values + 8 * static_cast<std::size_t>(octet);
      return vcombine_s8(vld1_s8(at[2 * p] + from), vld1_s8(at[2 * p + 1] + from));
    }
  };

  template <int kRows>
  [[gnu::always_inline]] static inline void add_pairs(Simd::F (&acc)[kRows][1], const MatmulTask& t, int row,
                                                      const PanelPart<1>& part) {
    const ActivationLayout layout = ActivationLayout::of(t.k);
    const auto begin = static_cast<std::size_t>(part.begin);
    Rows<kRows> x{{}, begin, layout.scales + begin / kActivationBlock * sizeof(ActivationScale)};
    for (int r = 0; r < 2 * Rows<kRows>::kPairs; ++r)
      x.at[r] = TaskRows{t}.at<std::int8_t>(row + (r < kRows ? r : kRows - 1));
    const std::uint8_t* w = part.at[0];
    for (std::int64_t k = part.begin; k < part.end; k += Format::kBlock) {
      for (int s = 0; s < Format::kSubs; ++s) {
        each<Format::kGroups>([&](auto g) __attribute__((always_inline)) { group<kRows, g>(acc, x, w, s); });
        x.values += kActivationBlock;
        x.scales += sizeof(ActivationScale);
      }
      w += Format::kBytes;
    }
  }

  // Sums of four columns, [pair of rows][two columns], as they come out of the products: {c0 r0, c0 r1, c1 r0, c1 r1}.
  template <int kPairs>
  struct Sums {
    int32x4_t v[kPairs][2];
    template <int kRow>
    [[gnu::always_inline]] float32x4_t value() const {
      const auto& [first, second] = v[kRow / 2];
      return vcvtq_f32_s32(kRow % 2 == 0 ? vuzp1q_s32(first, second) : vuzp2q_s32(first, second));
    }
  };

  template <int kRows, int kGroup>
  [[gnu::always_inline]] static inline void group(Simd::F (&acc)[kRows][1], const Rows<kRows>& x, const std::uint8_t* w,
                                                  int s) {
    constexpr int kPairs = Rows<kRows>::kPairs;
    std::int32_t sum[2 * kPairs];
    int8x16_t rows[kPairs][kOctets];
    each<2 * kPairs>([&](auto r) __attribute__((always_inline)) {
      sum[r] = Format::kGroups == 2 ? x.scale(r).sum[kGroup] : x.scale(r).sum[0] + x.scale(r).sum[1];
    });
    each<kPairs, kOctets>([&](auto p, auto t)
                              __attribute__((always_inline)) { rows[p][t] = x.pair(p, kGroup * kOctets + t); });
    const Simd::F scale = Format::scale(w, s, kGroup);
    each<4>([&](auto q) __attribute__((always_inline)) {
      Sums<kPairs> sums;
      each<kPairs, 2>([&](auto p, auto c) __attribute__((always_inline)) {
        const std::int32_t first = -Format::kZeroPoint * sum[2 * p], second = -Format::kZeroPoint * sum[2 * p + 1];
        sums.v[p][c] = int32x4_t{first, second, first, second};
      });
      each<kOctets>([&](auto t) __attribute__((always_inline)) {
        const Octet codes = Octets<Format>::at(w, s, kGroup * kOctets + t, q);
        each<kPairs, 2>([&](auto p, auto c) __attribute__((always_inline)) {
          sums.v[p][c] = vusmmlaq_s32(sums.v[p][c], codes.v[c], rows[p][t]);
        });
      });
      each<kRows>([&](auto r) __attribute__((always_inline)) {
        const float32x4_t scaled = vmulq_f32(scale.v[q], vdupq_n_f32(x.scale(r).scale));
        acc[r][0].v[q] = vfmaq_f32(acc[r][0].v[q], scaled, sums.template value<r>());
      });
    });
    if constexpr (Format::kHasMinimum) {
      const Simd::F minimum = Format::minimum(w, s, kGroup);
      each<kRows>([&](auto r) __attribute__((always_inline)) {
        const ActivationScale& of = x.scale(r);
        const float weighted = Format::kGroups == 2 ? of.scale * static_cast<float>(sum[r]) : of.weighted;
        acc[r][0] = Simd::fma(minimum, Simd::set1(weighted), acc[r][0]);
      });
    }
  }
};

template <class Format>
using Int8Pairs = PairTile<Format>;
template <class Format>
using Int16Pairs = TwoByteTile<PairTile<Format>, Format>;

}  // namespace espalier::kernels::i8mm
