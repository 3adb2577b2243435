// hopper_panels.h: how warps read register A of wgmma out of panels as the tensor memory accelerator brings them.
//
// A panel is lines of 64 bytes: of 16 columns two values of K each (bf16), or four codes (FP8 by 128). The accelerator brings the
// lines of 64 values of K, a stage, and exchanges pieces of 16 bytes within a line by bits 1 and 2 of its number
// (CU_TENSOR_MAP_SWIZZLE_64B). Scales of FP8 do not come with them: a thread loads its two from memory, once for 128 values.
// A warp has one panel; `lane` is a thread's number in it. With columns in column()'s order, what a warp loads together lies in
// different banks.
// Threads: any; nothing is shared. Fails: never.
#pragma once

#include "kernels/cuda/products/float_codes.h"

namespace espalier::cuda::hopper {

inline constexpr int kValues = 64, kLine = 64;  // of K, in a stage; bytes

// What two steps of a tensor core take of a panel, 16 values of K each: register A.
struct Half {
  unsigned word[2][4];
};

// Neighbour 4 g + t has columns column() and the next one, and in each step values 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.
ESPALIER_EITHER inline unsigned column(unsigned lane) {
  const unsigned g = lane >> 2 & 7;
  return (g >> 1 & 1) * 8 + (g >> 2) * 4 + (g & 1) * 2;
}

using float_codes::Two;  // the words of a neighbour's two columns
// Where they lie in a line that the accelerator exchanged by `bits`.
ESPALIER_EITHER inline unsigned in_line(unsigned lane, unsigned bits) {
  return column(lane) * 4 ^ bits << 4;
}

// Panels of bf16.
struct Bf16Panels {
  static constexpr DType kType = DType::bf16;
  static constexpr int kLines = kValues / 2;         // of a stage
  static constexpr int kSumStages = 1024 / kValues;  // whose products are one sum, from zero
  static constexpr bool kScaled = false;

  ESPALIER_EITHER static int first_line(int stage) { return stage * kLines; }
  static constexpr std::int64_t lines(std::int64_t k) { return (k + 1) / 2; }  // of a panel
  ESPALIER_ON_DEVICE static Half load(const std::uint8_t* stage, int half, unsigned lane) {
    Half out;
    const unsigned t = lane & 3;  // lines t and t + 4 of each step
    const std::uint8_t* const lines = stage + (16 * half + t) * kLine;
    const int first = in_line(lane, t >> 1), second = 4 * kLine + in_line(lane, 2 + (t >> 1));
    ESPALIER_UNROLL(2)
    for (int step = 0; step < 2; ++step) {
      const auto low = *reinterpret_cast<const Two*>(lines + 8 * step * kLine + first),
                 high = *reinterpret_cast<const Two*>(lines + 8 * step * kLine + second);
      out.word[step][0] = low.a;
      out.word[step][1] = low.b;
      out.word[step][2] = high.a;
      out.word[step][3] = high.b;
    }
    return out;
  }
};

// Panels of FP8 with a scale for 128 values: [blocks][a line of scales | 32 lines of codes].
struct Fp8Panels {
  using Codes = float_codes::Eight<128>;
  static constexpr DType kType = DType::f8_128;
  static constexpr int kLines = kValues / 4;
  static constexpr int kSumStages = Codes::kBlock / kValues;
  static constexpr bool kScaled = true;

  ESPALIER_EITHER static int first_line(int stage) {
    return stage / kSumStages * (Codes::kBlockBytes / kLine) + 1 + stage % kSumStages * kLines;
  }
  static constexpr std::int64_t lines(std::int64_t k) { return k / Codes::kBlock * (Codes::kBlockBytes / kLine); }
  ESPALIER_ON_DEVICE static Half load(const std::uint8_t* stage, int half, unsigned lane) {
    Half out;
    const bool second = (lane & 1) != 0;  // of lines t / 2 and t / 2 + 2 of each step
    const std::uint8_t* const lines = stage + (8 * half + (lane >> 1 & 1)) * kLine;
    ESPALIER_UNROLL(2)
    for (int step = 0; step < 2; ++step) {
      const std::uint8_t* const from = lines + 4 * step * kLine;
      const auto low = *reinterpret_cast<const Two*>(from + in_line(lane, 2 * step)),
                 high = *reinterpret_cast<const Two*>(from + 2 * kLine + in_line(lane, 2 * step + 1));
      out.word[step][0] = Codes::two(low.a, second);
      out.word[step][1] = Codes::two(low.b, second);
      out.word[step][2] = Codes::two(high.a, second);
      out.word[step][3] = Codes::two(high.b, second);
    }
    return out;
  }
  // Scales of this neighbour's columns: of the sum that begins with `stage`.
  ESPALIER_ON_DEVICE static float_codes::TwoFloats scales(const std::uint8_t* panel, int stage, unsigned lane) {
    return *reinterpret_cast<const float_codes::TwoFloats*>(panel + (first_line(stage) - 1) * kLine + column(lane) * 4);
  }
};

}  // namespace espalier::cuda::hopper
