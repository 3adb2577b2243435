// float_codes.h: how products by tensor cores read panels of weights whose codes are floats (has_float_codes()) or f16, and rows
// of bf16 beside them: 64 values of K at a time, a stage.
//
// Codes become bf16 in registers: those of eight bits exactly, those of NF4 and FP4 by a table that is rounded to bf16; an f16
// is the sum of two bf16, exactly, which are multiplied one after the other. A step of a tensor core takes 16 values of K that
// follow one another; neighbour t of four has values 4 t to 4 t + 3 of them, a word of a panel of eight bits, and the same of
// rows. A scale is multiplied with the sums of its block.
// In shared memory a stage of a panel is [blocks][scales | codes] lines of 64 bytes, a stage of a row 128 bytes; pieces of 16
// bytes change places within them, so that what a warp loads together lies in different banks.
// Threads: all of a warp multiply together. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_work.h"
#include "kernels/cuda/simt/matrices.h"

namespace espalier::cuda::float_codes {

inline constexpr int kValues = 64, kRowBytes = 2 * kValues, kRowPieces = kRowBytes / 16, kLine = 64;
inline constexpr int kPieceStages = 2;  // stages whose sums, once scaled, are one summand of a row's total

using Two = kernels::fragments::Simd::B;
using TwoFloats = kernels::fragments::Simd::F;

// Where a piece of 16 bytes of row `row` of some goes.
ESPALIER_ON_DEVICE inline int row_place_of(int row, int piece) {
  return row * kRowBytes + (piece ^ (row & 3) << 1) * 16;
}

// Panels of lines of 16 words, one of each column: where piece `piece` of a stage goes.
struct Lines {
  ESPALIER_ON_DEVICE static int place_of(int piece) { return (piece ^ (piece >> 2 & 2)) * 16; }
};
// What columns 2 g and 2 g + 1 have in line `line` of a stage of a panel.
template <class T>
ESPALIER_ON_DEVICE T in_line(const std::uint8_t* stage, int line) {
  const int g = simt::thread() >> 2 & 7;
  return *reinterpret_cast<const T*>(stage + line * kLine + (8 * g ^ (line & 2) << 4));
}
// Values 4 t to 4 t + 3 of a step, of row g of eight.
ESPALIER_ON_DEVICE inline Two of_row(const std::uint8_t* rows, int step) {
  const int g = simt::thread() >> 2 & 7, t = simt::thread() & 3;
  return *reinterpret_cast<const Two*>(rows + row_place_of(g, 2 * step + t / 2) + t % 2 * 8);
}

// Codes of eight bits (e4m3); kOfBlock: how many have one scale.
template <int kOfBlock>
struct Eight : Lines {
  static constexpr int kBlock = kOfBlock, kBlockBytes = kLine + 16 * kBlock;
  static constexpr int kStepLines = 4, kScaleLines = 1, kTerms = 1;

  // Register A of a step, whose first line is `line` + 4 `step`.
  ESPALIER_ON_DEVICE static void step(const std::uint8_t* stage, int line, int step, unsigned (&words)[kTerms][4]) {
    unsigned(&word)[4] = words[0];
    const Two codes = in_line<Two>(stage, line + kStepLines * step + (simt::thread() & 3));
    word[0] = two(codes.a, false);
    word[1] = two(codes.b, false);
    word[2] = two(codes.a, true);
    word[3] = two(codes.b, true);
  }
  // The first two of a word's codes, or the second two, as bf16.
  ESPALIER_ON_DEVICE static unsigned two(unsigned codes, bool second) {
    return as_bf16(simt::pick_bytes(codes, 0, second ? kSecond : kFirst));
  }

 private:
  static constexpr unsigned kFirst = 0x1404, kSecond = 0x3424;  // two bytes as the upper ones of words of two
  // Two codes in upper bytes as bf16: exponent and mantissa moved into place, bias 7 made 127 by a factor of 2^120.
  ESPALIER_ON_DEVICE static unsigned as_bf16(unsigned upper) {
#ifdef __CUDA_ARCH__
    unsigned both = (upper >> 4 & 0x07f007f0u) | (upper & 0x80008000u);
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(both) : "r"(0x7b807b80u), "r"(0x80008000u));  // + -0
    return both;
#else
    const auto one = [](unsigned code) { return kernels::simt::bits_of_float(kernels::simt::e4m3_to_float(code)); };
    return one(upper >> 8 & 255) >> 16 | (one(upper >> 24) & 0xffff0000u);
#endif
  }
};

// Codes of four bits, places in a table.
template <const std::array<float, 16>& kTable>
struct Four : Lines {
  static constexpr int kBlock = 64, kBlockBytes = kLine + 8 * kBlock;
  static constexpr int kStepLines = 2;  // four lines have two steps: low nibbles, then high ones
  static constexpr int kScaleLines = 1, kTerms = 1;

  ESPALIER_ON_DEVICE static void step(const std::uint8_t* stage, int line, int step, unsigned (&words)[kTerms][4]) {
    unsigned(&word)[4] = words[0];
    using Read = kernels::fragments::Simd;
    static constexpr Bytes bytes = Bytes::make();
    const Two both = in_line<Two>(stage, line + step / 2 * 4 + (simt::thread() & 3));
    const Two places = Read::shift_right(both, step % 2 * 4);
    const Two low = Read::lookup(places, bytes.low), high = Read::lookup(places, bytes.high);
    word[0] = simt::pick_bytes(low.a, high.a, 0x5140);
    word[1] = simt::pick_bytes(low.b, high.b, 0x5140);
    word[2] = simt::pick_bytes(low.a, high.a, 0x7362);
    word[3] = simt::pick_bytes(low.b, high.b, 0x7362);
  }

 private:
  // The two bytes of each value as bf16.
  struct Bytes {
    std::uint8_t low[16], high[16];
    static constexpr Bytes make() {
      Bytes out{};
      for (int i = 0; i < 16; ++i) {
        const unsigned bits = to_bf16(kTable[static_cast<std::size_t>(i)]).bits;
        out.low[i] = static_cast<std::uint8_t>(bits & 255);
        out.high[i] = static_cast<std::uint8_t>(bits >> 8);
      }
      return out;
    }
  };
};

// Floats of 16 bits: [k][16 columns], without scales.
struct Sixteen {
  static constexpr int kBlock = kPieceStages * kValues, kBlockBytes = 32 * kBlock;
  static constexpr int kStepLines = 8, kScaleLines = 0, kTerms = 2;

  // Those of a k, two pieces, are in other banks than those of the k four further on.
  ESPALIER_ON_DEVICE static int place_of(int piece) { return (piece ^ (piece >> 2 & 6)) * 16; }
  ESPALIER_ON_DEVICE static void step(const std::uint8_t* stage, int, int step, unsigned (&words)[kTerms][4]) {
    const int g = simt::thread() >> 2 & 7, t = simt::thread() & 3;
    ESPALIER_UNROLL(2)
    for (int pair = 0; pair < 2; ++pair) {
      std::uint32_t both[2];  // of each k columns 2 g and 2 g + 1
      ESPALIER_UNROLL(2)
      for (int i = 0; i < 2; ++i)
        both[i] =
            *reinterpret_cast<const std::uint32_t*>(stage + (16 * step + 4 * t + ((2 * pair + i) ^ t)) * 32 + 4 * g);
      split(both[0] & 0xffffu, both[1] & 0xffffu, words[0][2 * pair], words[1][2 * pair]);
      split(both[0] >> 16, both[1] >> 16, words[0][2 * pair + 1], words[1][2 * pair + 1]);
    }
  }

 private:
  // Two f16 as two sums of bf16.
  ESPALIER_ON_DEVICE static void split(std::uint32_t first, std::uint32_t second, unsigned& high, unsigned& low) {
    const float a = kernels::simt::half_to_float(first), b = kernels::simt::half_to_float(second);
    high = simt::two_bf16(a, b);
    low = simt::two_bf16(a - kernels::simt::float_of_bits(high << 16),
                         b - kernels::simt::float_of_bits(high & 0xffff0000u));
  }
};

// A stage of a panel: kBlocks blocks, or a part of one, of kSteps steps each, behind their scales.
template <class Codes>
struct Stage {
  static constexpr bool kWhole = Codes::kBlock <= kValues;  // else a block is a piece
  static constexpr int kBlocks = kWhole ? kValues / Codes::kBlock : 1, kSteps = kValues / kBlocks / 16;
  static constexpr int kLines = Codes::kScaleLines + kSteps * Codes::kStepLines, kBytes = kBlocks * kLines * kLine,
                       kPieces = kBytes / 16;
  static_assert(kWhole || Codes::kBlock == kPieceStages * kValues);

  // Where its piece `piece` lies in a panel.
  ESPALIER_ON_DEVICE static int from(int stage, int piece) {
    if constexpr (kWhole || Codes::kScaleLines == 0) return stage * kBytes + piece * 16;
    constexpr int kPart = kBytes - kLine;
    return stage / kPieceStages * Codes::kBlockBytes + piece * 16 + (piece >= 4 ? stage % kPieceStages * kPart : 0);
  }
  ESPALIER_ON_DEVICE static TwoFloats scales(const std::uint8_t* stage, int block) {
    if constexpr (Codes::kScaleLines == 0) return {1.0f, 1.0f};
    return in_line<TwoFloats>(stage, block * kLines);
  }
  ESPALIER_ON_DEVICE static void step(const std::uint8_t* stage, int block, int step,
                                      unsigned (&words)[Codes::kTerms][4]) {
    Codes::step(stage, block * kLines + Codes::kScaleLines, step, words);
  }
};

// What there is of K.
struct Length {
  int values, stages, panel_bytes;
  template <class Codes>
  ESPALIER_ON_DEVICE static Length of(const MatmulTask& t) {
    const auto k = static_cast<int>(t.k);
    return {k, (k + kValues - 1) / kValues, Codes::kScaleLines == 0 ? 32 * k : k / Codes::kBlock * Codes::kBlockBytes};
  }
  ESPALIER_ON_DEVICE int pieces() const { return (stages + kPieceStages - 1) / kPieceStages; }
};

// A block's sums of 16 columns and eight rows (as tensor cores leave them), by its scales.
ESPALIER_ON_DEVICE inline void add_scaled(float (&to)[4], const float (&sums)[4], TwoFloats scales) {
  to[0] = fmaf(scales.a, sums[0], to[0]);
  to[1] = fmaf(scales.a, sums[1], to[1]);
  to[2] = fmaf(scales.b, sums[2], to[2]);
  to[3] = fmaf(scales.b, sums[3], to[3]);
}

}  // namespace espalier::cuda::float_codes
