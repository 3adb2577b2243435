// quant_blocks.h: the blocks of GGUF's quantised types, byte for byte as files hold them.
//
// Units:   a block holds 32 or (the "K" family and iq4_xs) 256 consecutive values of one row.
// Notation: x is a decoded value, q a stored number, d and m scales; "low first" means that the low half of a byte is
//          an element of the first half of its group and the high half the element a half group later.
// Layout:  every member is bytes, so alignment is 1 everywhere: a mapped file may be read through these directly.
//          Scales are little-endian f16. All blocks of a row are adjacent, rows too.
// Source:  the GGUF format's reference decoder; tensor/decode.cpp spells the arithmetic out and the goldens pin its
//          bits.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/dtype.h"

namespace espalier {

// An f16 without alignment.
struct StoredF16 {
  std::uint8_t low, high;

  f16 half() const { return {static_cast<std::uint16_t>(low | (high << 8))}; }
  float value() const { return to_float(half()); }
  static StoredF16 of(f16 value) {
    return {static_cast<std::uint8_t>(value.bits & 0xff), static_cast<std::uint8_t>(value.bits >> 8)};
  }
};

// x = d * q.
struct BlockQ8_0 {
  StoredF16 d;
  std::int8_t q[32];
};

// x = d * (q - 8); 4 bits, low first: byte j holds elements j and j + 16.
struct BlockQ4_0 {
  StoredF16 d;
  std::uint8_t q[16];
};

// x = d * q + m; nibbles as in Q4_0.
struct BlockQ4_1 {
  StoredF16 d, m;
  std::uint8_t q[16];
};

// x = d * (q - 16); 5 bits: nibbles as in Q4_0, the fifth bit of element j is bit j of `high` (little-endian u32).
struct BlockQ5_0 {
  StoredF16 d;
  std::uint8_t high[4];
  std::uint8_t q[16];
};

// x = d * q + m; bits as in Q5_0.
struct BlockQ5_1 {
  StoredF16 d, m;
  std::uint8_t high[4];
  std::uint8_t q[16];
};

// x = d * scale * q - m * min, 16 sub-blocks of 16, q of 2 bits.
// scales[s]: low nibble the scale, high nibble the min of sub-block s.
// q: two halves of 128 values; byte 32 h + l holds, from the low bits up, elements l, l + 32, l + 64, l + 96 of half h.
struct BlockQ2_K {
  std::uint8_t scales[16];
  std::uint8_t q[64];
  StoredF16 d, m;
};

// x = d * (scale - 32) * q, q of 3 bits in -4..3, 16 sub-blocks of 16.
// Low two bits of q + 4: as in Q2_K. Third bit: element 32 j + l is bit j of high[l].
// scales: 16 numbers of 6 bits; scale s has its low nibble in scales[s % 8] (high half of the byte for s >= 8) and its
// upper two bits in scales[8 + s % 4] at bit 2 (s / 4).
struct BlockQ3_K {
  std::uint8_t high[32];
  std::uint8_t q[64];
  std::uint8_t scales[12];
  StoredF16 d;
};

// x = d * scale * q - m * min, q of 4 bits, 8 sub-blocks of 32.
// q: four groups of 64 values in 32 bytes each, low first (byte l of group g holds elements 64 g + l and 64 g + 32 +
// l). scales: 8 scales and 8 mins of 6 bits, see scale_min_k4().
struct BlockQ4_K {
  StoredF16 d, m;
  std::uint8_t scales[12];
  std::uint8_t q[128];
};

// As Q4_K with a fifth bit: that of element 32 s + l is bit s of high[l].
struct BlockQ5_K {
  StoredF16 d, m;
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t q[128];
};

// x = d * scale * (q - 32), q of 6 bits, 16 sub-blocks of 16 with signed 8-bit scales.
// Two halves of 128 values. Low nibbles: byte 64 h + l (l < 64) holds elements l and l + 64 of half h, low first.
// Upper two bits: byte 32 h + l holds, from the low bits up, those of elements l, l + 32, l + 64, l + 96.
struct BlockQ6_K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  StoredF16 d;
};

// x = d * kIq4Values[q]; nibbles as in Q4_0.
struct BlockIQ4_NL {
  StoredF16 d;
  std::uint8_t q[16];
};

// x = d * (scale - 32) * kIq4Values[q], 8 sub-blocks of 32, each with nibbles as in Q4_0.
// scale s: low nibble in scales_low[s / 2] (high half for odd s), upper two bits at bit 2 s of scales_high (LE u16).
struct BlockIQ4_XS {
  StoredF16 d;
  std::uint8_t scales_high[2];
  std::uint8_t scales_low[4];
  std::uint8_t q[128];
};

// The sixteen values of the IQ4 types.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

// Scale and minimum of a sub-block of the "K" types, unpacked.
struct ScaleMin {
  std::uint8_t scale, min;  // 6 bits each
};

// Sub-block s (0..7) of the 12 packed bytes of Q4_K and Q5_K: the first four scales and mins lie in the low six bits of
// bytes 0-3 and 4-7, the last four have their low nibbles in bytes 8-11 and their upper two bits on top of those.
constexpr ScaleMin scale_min_k4(const std::uint8_t (&packed)[12], int s) {
  if (s < 4) return {static_cast<std::uint8_t>(packed[s] & 63), static_cast<std::uint8_t>(packed[s + 4] & 63)};
  return {static_cast<std::uint8_t>((packed[s + 4] & 15) | ((packed[s - 4] >> 6) << 4)),
          static_cast<std::uint8_t>((packed[s + 4] >> 4) | ((packed[s] >> 6) << 4))};
}

// Sub-block s (0..15) of Q3_K, 0..63 (32 stands for zero).
constexpr int scale_q3_k(const std::uint8_t (&packed)[12], int s) {
  const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
  return low | (((packed[8 + s % 4] >> (2 * (s / 4))) & 3) << 4);
}

// Sub-block s (0..7) of IQ4_XS, 0..63 (32 stands for zero).
inline int scale_iq4_xs(const BlockIQ4_XS& block, int s) {
  const int low = (block.scales_low[s / 2] >> (4 * (s % 2))) & 15;
  const int high = (block.scales_high[s / 4] >> (2 * (s % 4))) & 3;
  return low | (high << 4);
}

template <class Block, DType type>
inline constexpr bool kFits = sizeof(Block) == block_shape(type).bytes && alignof(Block) == 1;
static_assert(kFits<BlockQ8_0, DType::q8_0> && kFits<BlockQ4_0, DType::q4_0> && kFits<BlockQ4_1, DType::q4_1>);
static_assert(kFits<BlockQ5_0, DType::q5_0> && kFits<BlockQ5_1, DType::q5_1> && kFits<BlockQ2_K, DType::q2_k>);
static_assert(kFits<BlockQ3_K, DType::q3_k> && kFits<BlockQ4_K, DType::q4_k> && kFits<BlockQ5_K, DType::q5_k>);
static_assert(kFits<BlockQ6_K, DType::q6_k> && kFits<BlockIQ4_NL, DType::iq4_nl> && kFits<BlockIQ4_XS, DType::iq4_xs>);

}  // namespace espalier
