// iq_blocks.h: the blocks of GGUF's types with two bits or fewer, three on a lattice, or floats of four bits.
//
// Notation and layout as in quant_blocks.h. The IQ1, IQ2 and IQ3 types choose 4 or 8 values at once: a point of a
// lattice (iq_grids.h) and, but for IQ1, a sign for each. What all of them come to is IqValues, from which both the
// decoder and the panels are made.
// Source: the GGUF format's reference decoder; SHA-256 of whole tensors in tests/data/goldens/gguf-iq.
#pragma once

#include <cstdint>

#include "tensor/quant_blocks.h"

namespace espalier {

// 256 values of IQ1_S: 1.56 bits each.
struct BlockIQ1_S {
  StoredF16 d;
  std::uint8_t q[32];
  std::uint8_t high[16];  // 8 u16: three upper bits of four places each; 3 bits of scale; the sign of delta
};
// 256 values of IQ1_M: 1.75 bits each.
struct BlockIQ1_M {
  std::uint8_t q[32];
  std::uint8_t high[16];   // a nibble for each eight values: three upper bits of the place, the sign of delta
  std::uint8_t scales[8];  // 4 u16: four scales of 3 bits each, and 4 bits of d
};
// 256 values of IQ2_XXS: 2.06 bits each.
struct BlockIQ2_XXS {
  StoredF16 d;
  std::uint8_t q[64];  // for each 32 values: 4 places; a u32 with 4 x 7 bits of signs and 4 of scale
};
// 256 values of IQ2_XS: 2.31 bits each.
struct BlockIQ2_XS {
  StoredF16 d;
  std::uint8_t q[64];  // 32 u16: 9 bits of place, 7 of signs
  std::uint8_t scales[8];
};
// 256 values of IQ2_S: 2.5 bits each.
struct BlockIQ2_S {
  StoredF16 d;
  std::uint8_t q[32], signs[32];
  std::uint8_t high[8];
  std::uint8_t scales[8];
};
// 256 values of IQ3_XXS: 3.06 bits each.
struct BlockIQ3_XXS {
  StoredF16 d;
  std::uint8_t q[64];
  std::uint8_t scales[32];  // 8 u32: 4 x 7 bits of signs, 4 of scale
};
// 256 values of IQ3_S: 3.44 bits each.
struct BlockIQ3_S {
  StoredF16 d;
  std::uint8_t q[64];
  std::uint8_t high[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];
};

// x = d * (q - 1); five numbers of base 3 in a byte, the first in the upper end of 243/256ths.
struct BlockTQ1_0 {
  std::uint8_t q[48];
  std::uint8_t high[4];
  StoredF16 d;
};
// x = d * (q - 1), bits as in Q2_K.
struct BlockTQ2_0 {
  std::uint8_t q[64];
  StoredF16 d;
};

// x = 2^(e - 128) * kFp4Values[q]; nibbles as in Q4_0.
struct BlockMXFP4 {
  std::uint8_t e;
  std::uint8_t q[16];
};
// x = d / 2 * kFp4Values[q], four groups of 16 values, each with nibbles low first and a scale d that is an e4m3
// without a sign.
struct BlockNVFP4 {
  std::uint8_t d[4];
  std::uint8_t q[32];
};

// Twice the values of a float of four bits, e2m1.
inline constexpr std::array<std::int8_t, 16> kFp4Values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128), which is no normal float for e below 2.
constexpr float half_e8m0(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (std::uint32_t{e} - 1) << 23);
}
// Half an e4m3 without sign, and 0 for what is none.
constexpr float half_ue4m3(std::uint8_t bits) {
  return bits == 0x7f ? 0.0f : (bits & 0x7f) == 0x7f ? 240.0f : 0.5f * f8_e4m3_to_float(bits & 0x7f);
}

// One block of 256 values taken apart: value i is d * factor<Block> * scale[i / 16] * value[i], all exact in float32.
struct IqValues {
  StoredF16 d;
  std::uint8_t scale[16];
  std::int8_t value[256];
};
template <class Block>
inline constexpr float kIqFactor = 0.125f;
template <>
inline constexpr float kIqFactor<BlockIQ3_XXS> = 0.25f;
template <>
inline constexpr float kIqFactor<BlockIQ3_S> = 1.0f;

IqValues take_apart(const BlockIQ1_S& block);
IqValues take_apart(const BlockIQ1_M& block);
IqValues take_apart(const BlockIQ2_XXS& block);
IqValues take_apart(const BlockIQ2_XS& block);
IqValues take_apart(const BlockIQ2_S& block);
IqValues take_apart(const BlockIQ3_XXS& block);
IqValues take_apart(const BlockIQ3_S& block);

// Numbers 0, 1, 2 of a ternary block.
void ternary(const BlockTQ1_0& block, std::uint8_t (&q)[256]);
void ternary(const BlockTQ2_0& block, std::uint8_t (&q)[256]);

static_assert(kFits<BlockIQ1_S, DType::iq1_s> && kFits<BlockIQ1_M, DType::iq1_m>);
static_assert(kFits<BlockIQ2_XXS, DType::iq2_xxs> && kFits<BlockIQ2_XS, DType::iq2_xs>);
static_assert(kFits<BlockIQ2_S, DType::iq2_s> && kFits<BlockIQ3_XXS, DType::iq3_xxs>);
static_assert(kFits<BlockIQ3_S, DType::iq3_s> && kFits<BlockTQ1_0, DType::tq1_0> && kFits<BlockTQ2_0, DType::tq2_0>);
static_assert(kFits<BlockMXFP4, DType::mxfp4> && kFits<BlockNVFP4, DType::nvfp4>);

}  // namespace espalier
