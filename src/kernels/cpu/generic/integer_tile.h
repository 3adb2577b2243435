// integer_tile.h: micro-kernels that multiply codes of quantised weights with activations of one byte or two, in whole
// numbers, and scale what each block of 32 values gives.
//
// Codes that take more than a shift and a mask to read are unpacked first where many rows need them (matmul.h): to
// bytes in the form that a product takes, with float scales.
#pragma once

#include <type_traits>

#include "kernels/cpu/generic/formats.h"
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

// How many bytes an activation has, one or two (kernels/activations.h), each with its own dot product.
// A product adds what Format's codes x four activations give to 32-bit sums, or, where codes are small and the
// processor has it, to 16-bit sums of pairs, which then are added to those.
struct OneByte {
  static constexpr int kPlanes = 1;
  struct Sum {
    Simd::I acc;
  };
  struct Pairs {
    Simd::P acc;
  };
  static Sum start(std::int32_t value) { return {Simd::iset1(value)}; }
  template <class Format, int kPanels>
  [[gnu::always_inline]] static inline void dot(Sum (&sums)[kPanels], const Operand<Format> (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t) {
    const Simd::A a = Simd::aload(q);
    each<kPanels>([&](auto p) { sums[p].acc = dot4<Format>(sums[p].acc, codes[p], a); });
  }
  template <class Format>
  [[gnu::always_inline]] static inline Simd::I dot4(Simd::I sum, const Operand<Format>& codes, Simd::A a) {
    if constexpr (kCentred<Format>)
      return Simd::dot4_centred(sum, codes, a);
    else
      return Simd::template dot4<(Format::kMostCode < 128)>(sum, codes, a);
  }
  template <int kPanels>
  [[gnu::always_inline]] static inline void dot(Pairs (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t) {
    const Simd::A a = Simd::aload(q);
    each<kPanels>([&](auto p) { sums[p].acc = Simd::dot_pairs(sums[p].acc, codes[p], a); });
  }
  static void add(Sum& sum, const Pairs& pairs) { sum.acc = Simd::add_pairs(sum.acc, pairs.acc); }
  static Simd::F value(const Sum& sum) { return Simd::to_float(sum.acc); }
};

struct TwoBytes {
  static constexpr int kPlanes = 2;
  struct Sum {
    Simd::I high, low;
  };
  struct Pairs {
    Simd::P high, low;
  };
  static Sum start(std::int32_t value) { return {Simd::iset1(0), Simd::iset1(value)}; }
  template <class Format, int kPanels>
  [[gnu::always_inline]] static inline void dot(Sum (&sums)[kPanels], const Operand<Format> (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t plane) {
    const Simd::A high = Simd::aload(q), low = Simd::aload(q + plane);
    each<kPanels>([&](auto p) {
      sums[p].high = OneByte::dot4<Format>(sums[p].high, codes[p], high);
      sums[p].low = OneByte::dot4<Format>(sums[p].low, codes[p], low);
    });
  }
  template <int kPanels>
  [[gnu::always_inline]] static inline void dot(Pairs (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t plane) {
    const Simd::A high = Simd::aload(q), low = Simd::aload(q + plane);
    each<kPanels>([&](auto p) {
      sums[p].high = Simd::dot_pairs(sums[p].high, codes[p], high);
      sums[p].low = Simd::dot_pairs(sums[p].low, codes[p], low);
    });
  }
  static void add(Sum& sum, const Pairs& pairs) {
    sum.high = Simd::add_pairs(sum.high, pairs.high);
    sum.low = Simd::add_pairs(sum.low, pairs.low);
  }
  static Simd::F value(const Sum& sum) { return Simd::to_float(Simd::shift8_add(sum.high, sum.low)); }
};

// Two bytes where the low ones are all zero, as they are in most blocks (elementwise.h): the same sums as one byte has,
// and as two have, for half of their products and registers. What sums start at is then a multiple of 256.
struct HighByte : OneByte {
  static Sum start(std::int32_t value) { return {Simd::iset1(value / 256)}; }
  static Simd::F value(const Sum& sum) { return Simd::to_float(Simd::shift8_add(sum.acc, Simd::iset1(0))); }
};

// Of so many steps, how many may be added up in sixteen bits: each adds two products of a code and a signed byte.
constexpr int pair_run(int steps, int most_code) {
  const int fit = 32767 / (2 * 128 * most_code);
  return fit < steps ? fit : steps;
}

template <class Format, class Width>
struct IntegerTile {
  static constexpr bool kUnpacked = Operands<Format>::kUnpacked;
  static constexpr int kMaxRows = Simd::kInt8Rows, kRowsTogether = 1;
  static constexpr int kTwoByteRows = (kMaxRows + 1) / 2;  // whose sums the registers hold where both bytes count
  // Few rows wait for memory: they read panel behind panel, a single stream. Two side by side cost up to a third of the
  // bandwidth (Zen 4, SmolLM2 Q4_1, 2, 3, 4, 5 sequences: 6.1, 6.8, 7.1, 8.1 -> 4.8, 5.1, 6.1, 6.6 ms a step), but
  // share what a zero point costs for each row (the 1B shape, Q4_0: 2, 3 sequences 30, 30 -> 25, 27, but 5 of them 36
  // -> 45).
  static constexpr int kSingleStream = Format::kZeroPoint == 0 ? 5 : 3;  // planes of rows
  static constexpr int panels(int rows) {
    return rows == 1 || rows * Width::kPlanes <= kSingleStream ? 1 : Simd::kInt8Panels;
  }
  static constexpr std::int64_t offset(std::int64_t k) { return k / Format::kBlock * Format::kBytes; }
  static constexpr int kBytesOf32 = Format::kBytes / Format::kSubs;
  static constexpr bool kQuick =  // unpacking Q4_0 gave 6 % with 100 rows and took 10 % from 12 (Zen 3), Q8_0 nothing
      Format::kType == DType::q8_0 || Format::kType == DType::q4_0 || Format::kType == DType::q4_1;
  using Unpacked = std::conditional_t<kUnpacked || kQuick, void, IntegerTile<UnpackedFormat<Format>, Width>>;

  template <int kRows>
  struct Rows {
    const std::int8_t* at[kRows];
    std::size_t values, scales, plane;  // where the block's bytes and scale lie in each row; from high to low bytes
    const std::int8_t* q(int r, int j) const { return at[r] + values + 4 * j; }
    const ActivationScale& scale(int r) const { return *reinterpret_cast<const ActivationScale*>(at[r] + scales); }
    bool low_bytes_are_zero() const {
      std::uint64_t any = 0, eight;
      for (int r = 0; r < kRows; ++r)
        for (int i = 0; i < kActivationBlock; i += 8) {
          __builtin_memcpy(&eight, at[r] + plane + values + i, 8);
          any |= eight;
        }
      return any == 0;
    }
  };

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                                const PanelPart<kPanels>& part) {
    const ActivationLayout layout = ActivationLayout::of(t.k, Width::kPlanes);
    const auto begin = static_cast<std::size_t>(part.begin);
    Rows<kRows> x{{}, begin, layout.scales + begin / kActivationBlock * sizeof(ActivationScale), layout.plane};
    for (int r = 0; r < kRows; ++r) x.at[r] = TaskRows{t}.at<std::int8_t>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = part.at[p];
    // (One row asks for itself, or against codes of whole bytes is one long stream, which processors call in by
    // themselves: 10 % quicker.)
    CallAhead<kPanels> ahead(part.coming, (part.end - part.begin) / kActivationBlock);
    for (std::int64_t k = part.begin; k < part.end; k += Format::kBlock) {
      for (int s = 0; s < Format::kSubs; ++s) {
        if constexpr (kRows == 1 && Simd::kAskAhead && !kUnpacked)
          each<kPanels>([&](auto p) { ask_ahead<kBytesOf32>(w[p] + s * kBytesOf32); });
        if constexpr (kRows * Width::kPlanes > 1 || (kBytesOf32 < 512 && !Simd::kAskAhead)) ahead.step();
        const bool high_only = Width::kPlanes == 2 && x.low_bytes_are_zero();
        each<Format::kGroups>([&](auto g) __attribute__((always_inline)) {
          if constexpr (Width::kPlanes == 1)
            group<Width, 0, kRows>(tile, x, w, s, g);
          else if (high_only)
            group<HighByte, 0, kRows>(tile, x, w, s, g);
          else
            each<(kRows + kTwoByteRows - 1) / kTwoByteRows>([&](auto half) __attribute__((always_inline)) {
              constexpr int kFirst = half * kTwoByteRows;
              group<Width, kFirst, (kRows - kFirst < kTwoByteRows ? kRows - kFirst : kTwoByteRows)>(tile, x, w, s, g);
            });
        });
        x.values += kActivationBlock;
        x.scales += sizeof(ActivationScale);
      }
      for (auto& p : w) p += Format::kBytes;
    }
  }

  static void unpack(const std::uint8_t* panel, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
    for (std::int64_t k = begin; k < end; k += 32, out += UnpackedFormat<Format>::kBytes)
      UnpackedFormat<Format>::unpack(panel + k / Format::kBlock * Format::kBytes,
                                     static_cast<int>(k % Format::kBlock / 32), out);
  }

 private:
  // The products of a group of K of rows [kFirst, kFirst + kCount), with those bytes of the activations that Bytes
  // takes.
  template <class Bytes, int kFirst, int kCount, int kRows, int kPanels>
  [[gnu::always_inline]] static inline void multiply(typename Bytes::Sum (&acc)[kCount][kPanels], const Rows<kRows>& x,
                                                     const std::uint8_t* const (&w)[kPanels], int s, int g) {
    constexpr int kSteps = 8 / Format::kGroups;
    constexpr int kRun = Simd::kPairSums ? pair_run(kSteps, Format::kMostCode) : 0;
    if constexpr (kRun > 0) {
#pragma GCC unroll 8
      for (int begin = g * kSteps; begin < (g + 1) * kSteps; begin += kRun) {
        typename Bytes::Pairs pairs[kCount][kPanels] = {};
#pragma GCC unroll 8
        for (int j = begin; j < begin + kRun; ++j) {
          Simd::B codes[kPanels];
          each<kPanels>([&](auto p) { codes[p] = Operands<Format>::at(w[p], s, j); });
          each<kCount>([&](auto r) { Bytes::dot(pairs[r], codes, x.q(kFirst + r, j), x.plane); });
        }
        each<kCount, kPanels>([&](auto r, auto p) { Bytes::add(acc[r][p], pairs[r][p]); });
      }
    } else {
#pragma GCC unroll 8
      for (int j = g * kSteps; j < (g + 1) * kSteps; ++j) {
        Operand<Format> codes[kPanels];
        each<kPanels>([&](auto p) { codes[p] = Operands<Format>::at(w[p], s, j); });
        each<kCount>([&](auto r) { Bytes::template dot<Format>(acc[r], codes, x.q(kFirst + r, j), x.plane); });
      }
    }
  }

  // Adds what a group of K gives of these rows, scaled, to the tile.
  template <class Bytes, int kFirst, int kCount, int kRows, int kPanels>
  [[gnu::always_inline]] static inline void group(Tile<kRows, kPanels>& tile, const Rows<kRows>& x,
                                                  const std::uint8_t* const (&w)[kPanels], int s, int g) {
    std::int32_t sum[kCount];
    typename Bytes::Sum acc[kCount][kPanels];
    each<kCount>([&](auto r) {
      const ActivationScale& of = x.scale(kFirst + r);
      sum[r] = Format::kGroups == 2 ? of.sum[g] : of.sum[0] + of.sum[1];
      const std::int32_t start = kCentred<Format> ? 0 : -Format::kZeroPoint * sum[r];
      each<kPanels>([&](auto p) { acc[r][p] = Bytes::start(start); });
    });
    multiply<Bytes, kFirst, kCount>(acc, x, w, s, g);
    each<kPanels>([&](auto p) {
      Simd::F scale = Format::scale(w[p], s, g);
      each<kCount>([&](auto r) {
        Simd::F scaled = Simd::mul(scale, Simd::set1(x.scale(kFirst + r).scale));
        tile.acc[kFirst + r][p] = Simd::fma(scaled, Bytes::value(acc[r][p]), tile.acc[kFirst + r][p]);
      });
      if constexpr (Format::kHasMinimum) {
        Simd::F minimum = Format::minimum(w[p], s, g);
        each<kCount>([&](auto r) {
          const ActivationScale& of = x.scale(kFirst + r);
          const float weighted = Format::kGroups == 2 ? of.scale * static_cast<float>(sum[r]) : of.weighted;
          tile.acc[kFirst + r][p] = Simd::fma(minimum, Simd::set1(weighted), tile.acc[kFirst + r][p]);
        });
      }
    });
  }
};

template <class Format>
using Int8Tile = IntegerTile<Format, OneByte>;
template <class Format>
using Int16Tile = IntegerTile<Format, TwoBytes>;

}  // namespace espalier::kernels::ESPALIER_ISA
