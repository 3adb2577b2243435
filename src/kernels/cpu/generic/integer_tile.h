// integer_tile.h: micro-kernels that multiply codes of quantised weights with activations of one byte or two, in whole
// numbers, and scale what each block of 32 values gives. Rows of two bytes are multiplied as rows of one, and what
// their low bytes give comes last, row by row: only some of the blocks have any.
//
// Codes that take more than a shift and a mask to read are unpacked first where many rows need them (matmul.h): to
// bytes in the form that a product takes, with float scales.
#pragma once

#include <type_traits>

#include "kernels/cpu/generic/choose_format.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::ESPALIER_ISA {

// Codes around 128 are multiplied as signed bytes where that is shorter; no byte of an activation is -128.
template <class Format>
inline constexpr bool kCentred = Simd::kCentredDot && Format::kZeroPoint == 128;

// Sixteen columns by four codes of K as products take them: unsigned, or signed apart from their size.
template <class Format>
using Operand = std::conditional_t<kCentred<Format>, Simd::S, Simd::B>;

// Where a product's operands come from: a block as it is stored.
template <class Format>
struct Operands {
  static constexpr bool kUnpacked = false;
  [[gnu::always_inline]] static inline Operand<Format> at(const std::uint8_t* block, int s, int j) {
    if constexpr (kCentred<Format>)
      return Simd::centre(Format::codes(block, s, j));
    else
      return Format::codes(block, s, j);
  }
};

// 32 values of K of a panel, unpacked: operands [8] | scales f32[kGroups][16] | minima f32[kGroups][16].
template <class Format>
struct UnpackedFormat {
  static constexpr DType kType = Format::kType;
  static constexpr int kBlock = 32, kSubs = 1, kGroups = Format::kGroups, kZeroPoint = Format::kZeroPoint,
                       kMostCode = Format::kMostCode;
  static constexpr bool kHasMinimum = Format::kHasMinimum;
  static constexpr int kOperand = kCentred<Format> ? 128 : 64, kScales = 8 * kOperand,
                       kBytes = kScales + kGroups * (kHasMinimum ? 2 : 1) * 64;

  static const float* scales(const std::uint8_t* b) { return reinterpret_cast<const float*>(b + kScales); }
  static Simd::F scale(const std::uint8_t* b, int, int g) { return Simd::load(scales(b) + 16 * g); }
  static Simd::F minimum(const std::uint8_t* b, int, int g) { return Simd::load(scales(b) + 16 * (kGroups + g)); }

  // Sub-block s of a block of Format.
  static void unpack(const std::uint8_t* block, int s, std::uint8_t* out) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) Simd::bstore(out + j * kOperand, Operands<Format>::at(block, s, j));
    auto* to = reinterpret_cast<float*>(out + kScales);
    for (int g = 0; g < kGroups; ++g) {
      Simd::store(to + 16 * g, Format::scale(block, s, g));
      if constexpr (kHasMinimum) Simd::store(to + 16 * (kGroups + g), Format::minimum(block, s, g));
    }
  }
};
// Operands of a format that was unpacked before.
template <class Format>
struct Operands<UnpackedFormat<Format>> {
  static constexpr bool kUnpacked = true;
  [[gnu::always_inline]] static inline Operand<Format> at(const std::uint8_t* block, int, int j) {
    const std::uint8_t* from = block + j * UnpackedFormat<Format>::kOperand;
    if constexpr (kCentred<Format>)
      return Simd::sload(from);
    else
      return Simd::bload(from);
  }
};

// A product adds what Format's codes x four activations give to 32-bit sums, or, where codes are small and the
// processor has it, to 16-bit sums of pairs, which then are added to those.
template <class Format>
[[gnu::always_inline]] inline Simd::I dot4(Simd::I sum, const Operand<Format>& codes, Simd::A a) {
  if constexpr (kCentred<Format>)
    return Simd::dot4_centred(sum, codes, a);
  else
    return Simd::template dot4<(Format::kMostCode < 128)>(sum, codes, a);
}

// Of so many steps (a power of two), how many may be added up in sixteen bits, a share of them without a rest: each adds
// two products of a code and a signed byte.
constexpr int pair_run(int steps, int most_code) {
  const int fit = 32767 / (2 * 128 * most_code);
  int run = steps;
  while (run > fit) run /= 2;
  return run;
}

// The micro-kernel for codes and activations in whole numbers.
template <class Format>
struct IntegerTile : WithoutRest {
  static constexpr bool kUnpacked = Operands<Format>::kUnpacked;
  static constexpr int kMaxRows = Simd::kInt8Rows, kRowsTogether = 1;
  // Few rows wait for memory: they read panel behind panel, a single stream. Two side by side cost up to a third of the
  // bandwidth (Zen 4, SmolLM2 Q4_1, 2, 3, 4, 5 sequences: 6.1, 6.8, 7.1, 8.1 -> 4.8, 5.1, 6.1, 6.6 ms a step), but
  // share what a zero point costs for each row (the 1B shape, Q4_0: 2, 3 sequences 30, 30 -> 25, 27, but 5 of them 36
  // -> 45).
  static constexpr int kSingleStream = Format::kZeroPoint == 0 ? 5 : 3;  // rows
  static constexpr int panels(int rows) { return rows <= kSingleStream ? 1 : Simd::kInt8Panels; }
  static constexpr std::int64_t offset(std::int64_t k) { return k / Format::kBlock * Format::kBytes; }
  static constexpr int kBytesOf32 = Format::kBytes / Format::kSubs;
  static constexpr bool kQuick =  // unpacking Q4_0 gave 6 % with 100 rows and took 10 % from 12 (Zen 3), Q8_0 nothing
      Format::kType == DType::q8_0 || Format::kType == DType::q4_0 || Format::kType == DType::q4_1;
  using Unpacked = std::conditional_t<kUnpacked || kQuick, void, IntegerTile<UnpackedFormat<Format>>>;

  template <int kRows>
  struct Rows {
    const std::int8_t* at[kRows];
    std::size_t values, scales;  // where the block's bytes and scale lie in each row
    const std::int8_t* q(int r, int j) const { return at[r] + values + 4 * j; }
    const ActivationScale& scale(int r) const { return *reinterpret_cast<const ActivationScale*>(at[r] + scales); }
    void go_to(std::size_t block, const ActivationLayout& layout) {
      values = block * kActivationBlock;
      scales = layout.scales + block * sizeof(ActivationScale);
    }
  };

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                                const PanelPart<kPanels>& part) {
    Rows<kRows> x;
    for (int r = 0; r < kRows; ++r) x.at[r] = TaskRows{t}.at<std::int8_t>(row + r);
    x.go_to(static_cast<std::size_t>(part.begin) / kActivationBlock, ActivationLayout::of(t.k));
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = part.at[p];
    // (One row asks for itself, or against codes of whole bytes is one long stream, which processors call in by
    // themselves: 10 % quicker.)
    CallAhead<kPanels> ahead(part.coming, (part.end - part.begin) / kActivationBlock);
    for (std::int64_t k = part.begin; k < part.end; k += Format::kBlock) {
      for (int s = 0; s < Format::kSubs; ++s) {
        if constexpr (kRows == 1 && Simd::kAskAhead && !kUnpacked)
          each<kPanels>([&](auto p) { ask_ahead<kBytesOf32>(w[p] + s * kBytesOf32); });
        if constexpr (kRows > 1 || (kBytesOf32 < 512 && !Simd::kAskAhead)) ahead.step();
        add_sub_block(tile, x, w, s);
        x.values += kActivationBlock;
        x.scales += sizeof(ActivationScale);
      }
      for (auto& p : w) p += Format::kBytes;
    }
  }

  // Adds what sub-block s of the blocks at w gives of the rows' block at hand.
  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add_sub_block(Tile<kRows, kPanels>& tile, const Rows<kRows>& x,
                                                          const std::uint8_t* const (&w)[kPanels], int s) {
    each<Format::kGroups>([&](auto g) __attribute__((always_inline)) { group(tile, x, w, s, g); });
  }

  static void unpack(const std::uint8_t* panel, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
    for (std::int64_t k = begin; k < end; k += 32, out += UnpackedFormat<Format>::kBytes)
      UnpackedFormat<Format>::unpack(panel + k / Format::kBlock * Format::kBytes,
                                     static_cast<int>(k % Format::kBlock / 32), out);
  }

 private:
  static constexpr int kSteps = 8 / Format::kGroups;
  static constexpr int kRun = Simd::kPairSums ? pair_run(kSteps, Format::kMostCode) : 0;

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void multiply(Simd::I (&acc)[kRows][kPanels], const Rows<kRows>& x,
                                                     const std::uint8_t* const (&w)[kPanels], int s, int g) {
    if constexpr (kRun > 0) {
#pragma GCC unroll 8
      for (int begin = g * kSteps; begin < (g + 1) * kSteps; begin += kRun) {
        Simd::P pairs[kRows][kPanels] = {};
#pragma GCC unroll 8
        for (int j = begin; j < begin + kRun; ++j) {
          Simd::B codes[kPanels];
          each<kPanels>([&](auto p) { codes[p] = Operands<Format>::at(w[p], s, j); });
          each<kRows>([&](auto r) {
            const Simd::A a = Simd::aload(x.q(r, j));
            each<kPanels>([&](auto p) { pairs[r][p] = Simd::dot_pairs(pairs[r][p], codes[p], a); });
          });
        }
        each<kRows, kPanels>([&](auto r, auto p) { acc[r][p] = Simd::add_pairs(acc[r][p], pairs[r][p]); });
      }
    } else {
#pragma GCC unroll 8
      for (int j = g * kSteps; j < (g + 1) * kSteps; ++j) {
        Operand<Format> codes[kPanels];
        each<kPanels>([&](auto p) { codes[p] = Operands<Format>::at(w[p], s, j); });
        each<kRows>([&](auto r) {
          const Simd::A a = Simd::aload(x.q(r, j));
          each<kPanels>([&](auto p) { acc[r][p] = dot4<Format>(acc[r][p], codes[p], a); });
        });
      }
    }
  }

  // Adds what a group of K gives, scaled, to the tile.
  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void group(Tile<kRows, kPanels>& tile, const Rows<kRows>& x,
                                                  const std::uint8_t* const (&w)[kPanels], int s, int g) {
    std::int32_t sum[kRows];
    Simd::I acc[kRows][kPanels];
    each<kRows>([&](auto r) {
      const ActivationScale& of = x.scale(r);
      sum[r] = Format::kGroups == 2 ? of.sum[g] : of.sum[0] + of.sum[1];
      const std::int32_t start = kCentred<Format> ? 0 : -Format::kZeroPoint * sum[r];
      each<kPanels>([&](auto p) { acc[r][p] = Simd::iset1(start); });
    });
    multiply(acc, x, w, s, g);
    each<kPanels>([&](auto p) {
      Simd::F scale = Format::scale(w[p], s, g);
      each<kRows>([&](auto r) {
        Simd::F scaled = Simd::mul(scale, Simd::set1(x.scale(r).scale));
        tile.acc[r][p] = Simd::fma(scaled, Simd::to_float(acc[r][p]), tile.acc[r][p]);
      });
      if constexpr (Format::kHasMinimum) {
        Simd::F minimum = Format::minimum(w[p], s, g);
        each<kRows>([&](auto r) {
          const ActivationScale& of = x.scale(r);
          const float weighted = Format::kGroups == 2 ? of.scale * static_cast<float>(sum[r]) : of.weighted;
          tile.acc[r][p] = Simd::fma(minimum, Simd::set1(weighted), tile.acc[r][p]);
        });
      }
    });
  }
};

// Adds what the low bytes of rows give, once all of the high bytes was added. A block that has low bytes in one of the
// rows is computed for all of them: zeros change no sum.
template <class Format, int kRows, int kPanels>
[[gnu::always_inline]] inline void add_low_bytes(Tile<kRows, kPanels>& tile, const MatmulTask& t, int panel, int row) {
  const WideLayout layout = WideLayout::of(t.k);
  typename IntegerTile<Format>::template Rows<kRows> x;
  const std::uint64_t* marks[kRows];
  for (int r = 0; r < kRows; ++r) {
    const auto* of_row = TaskRows{t}.at<std::int8_t>(row + r);
    x.at[r] = of_row + layout.low;
    marks[r] = reinterpret_cast<const std::uint64_t*>(of_row + layout.marks);
  }
  for (std::size_t word = 0; word < layout.mark_words; ++word) {
    std::uint64_t left = 0;
    for (int r = 0; r < kRows; ++r) left |= marks[r][word];
    for (; left != 0; left &= left - 1) {
      const std::size_t block = 64 * word + static_cast<std::size_t>(__builtin_ctzll(left));
      const std::uint8_t* w[kPanels];
      for (int p = 0; p < kPanels; ++p) w[p] = panel_at(t, panel + p) + block / Format::kSubs * Format::kBytes;
      x.go_to(block, layout.byte);
      IntegerTile<Format>::add_sub_block(tile, x, w, static_cast<int>(block % Format::kSubs));
    }
  }
}

// A micro-kernel of one-byte rows, for rows that have low bytes besides.
template <class Micro, class Format>
struct TwoByteTile : Micro {
  using Unpacked =
      std::conditional_t<std::is_void_v<typename Micro::Unpacked>, void, TwoByteTile<typename Micro::Unpacked, Format>>;

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add_rest(Tile<kRows, kPanels>& tile, const MatmulTask& t, int panel,
                                                     int row) {
    constexpr int kMost = Simd::kInt8Rows;  // that the registers hold
    if constexpr (kRows <= kMost)
      add_low_bytes<Format>(tile, t, panel, row);
    else
      each<(kRows + kMost - 1) / kMost>([&](auto i) {
        constexpr int kFirst = i * kMost, kCount = kRows - kFirst < kMost ? kRows - kFirst : kMost;
        Tile<kCount, kPanels> some;
        each<kCount, kPanels>([&](auto r, auto p) { some.acc[r][p] = tile.acc[kFirst + r][p]; });
        add_low_bytes<Format>(some, t, panel, row + kFirst);
        each<kCount, kPanels>([&](auto r, auto p) { tile.acc[kFirst + r][p] = some.acc[r][p]; });
      });
  }
};

template <class Format>
using Int8Tile = IntegerTile<Format>;
template <class Format>
using Int16Tile = TwoByteTile<IntegerTile<Format>, Format>;

}  // namespace espalier::kernels::ESPALIER_ISA
