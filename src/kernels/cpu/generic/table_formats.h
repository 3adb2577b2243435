// table_formats.h: how a micro-kernel reads panels whose codes are places in short tables of whole numbers: GGUF's
// lattices, thirds, and floats of four bits. See formats.h.
#pragma once

#include "kernels/cpu/generic/formats.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

// Tables raised by the largest magnitude, so that no number is negative.
ESPALIER_LANES constexpr std::uint8_t kRaised2[16] = {51, 68, 86, 43, 35, 18, 0, 43};     // 8, 25, 43 and minus these
ESPALIER_LANES constexpr std::uint8_t kRaised1[16] = {10, 16, 18, 9, 8, 2, 0, 9};         // 1, 7, 9
ESPALIER_LANES constexpr std::uint8_t kRaised3[16] = {66, 74, 82, 90, 98, 106, 114, 124,  // 4, 12 .. 52, 62
                                                      58, 50, 42, 34, 26, 18,  10,  0};
ESPALIER_LANES constexpr std::uint8_t kRaisedOdd[16] = {16, 18, 20, 22, 24, 26, 28, 30,
                                                        14, 12, 10, 8,  6,  4,  2,  0};  // 1 .. 15
ESPALIER_LANES constexpr std::uint8_t kRaisedFp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// Two bits of magnitude and a sign, with a scale for each 16 values.
template <DType kOf, const std::uint8_t (&kTable)[16], int kRaisedBy>
struct ThreeBitTable : SuperBlock {
  static constexpr DType kType = kOf;
  static constexpr int kSub = 32 + 3 * kBitBytes, kGroups = 2, kZeroPoint = kRaisedBy, kMostCode = 2 * kRaisedBy;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int g) {
    const Simd::F eighth = Simd::mul(Simd::load_f16(halves(b)), Simd::set1(0.125f));
    return Simd::mul(eighth, Simd::load_u8(sub(b, s) + 16 * g));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    const std::uint8_t* p = sub(b, s) + 32;
    return Simd::lookup(Simd::bor(two_bits(p + kBitBytes, j, 0), one_bit(p, j, 2)), kTable);
  }
};
using IQ2 = ThreeBitTable<DType::iq2_s, kRaised2, 43>;  // IQ2_XXS and IQ2_XS too
using IQ1_M = ThreeBitTable<DType::iq1_m, kRaised1, 9>;

// Three bits of magnitude and a sign, with a scale for each 32 values.
template <DType kOf, const std::uint8_t (&kTable)[16], int kRaisedBy, int kParts>
struct FourBitTable : SuperBlock {
  static constexpr DType kType = kOf;
  static constexpr int kSub = 16 + kNibbleBytes, kZeroPoint = kRaisedBy, kMostCode = 2 * kRaisedBy;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int) {
    const Simd::F part = Simd::mul(Simd::load_f16(halves(b)), Simd::set1(1.0f / kParts));
    return Simd::mul(part, Simd::load_u8(sub(b, s)));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    return Simd::lookup(nibbles(sub(b, s) + 16, j), kTable);
  }
};
using IQ3_XXS = FourBitTable<DType::iq3_xxs, kRaised3, 62, 4>;
using IQ3_S = FourBitTable<DType::iq3_s, kRaisedOdd, 15, 1>;

// Thirds and an eighth more or less, which the sign of a scale for each 32 values tells.
struct IQ1_S : SuperBlock {
  static constexpr DType kType = DType::iq1_s;
  static constexpr int kSub = 16 + 2 * kBitBytes, kZeroPoint = 1, kMostCode = 2;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  static constexpr bool kHasMinimum = true;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F signed_scale(const std::uint8_t* b, int s) {
    return Simd::load_i8(reinterpret_cast<const std::int8_t*>(sub(b, s)));
  }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int) {
    return Simd::mul(Simd::load_f16(halves(b)), Simd::abs(signed_scale(b, s)));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t* b, int s, int) {
    return Simd::mul(Simd::mul(Simd::load_f16(halves(b)), Simd::set1(0.125f)), signed_scale(b, s));
  }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) { return two_bits(sub(b, s) + 16, j, 0); }
};

// Thirds.
struct TQ : SuperBlock {
  static constexpr DType kType = DType::tq2_0;  // TQ1_0 too
  static constexpr int kSub = 2 * kBitBytes, kZeroPoint = 1, kMostCode = 2;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) { return Simd::load_f16(halves(b)); }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    return two_bits(b + kHalfRow + s * kSub, j, 0);
  }
};

// Floats of four bits with a power of two for each 32 values.
struct MXFP4 : LegacyBlock {
  static constexpr DType kType = DType::mxfp4;
  static constexpr int kBytes = kHalfRow + kNibbleBytes, kZeroPoint = 12, kMostCode = 24;
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) {
    return Simd::bf16_in_order(Simd::load_bf16(halves(b)));
  }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) {
    return Simd::lookup(nibbles(b + kHalfRow, j), kRaisedFp4);
  }
};

// Floats of four bits with a float of eight bits for each 16 values, and one for all.
struct NVFP4 {
  static constexpr DType kType = DType::nvfp4_g;  // GGUF's NVFP4 too
  static constexpr int kBlock = 64, kSubs = 2, kGroups = 2, kZeroPoint = 12, kMostCode = 24;
  static constexpr bool kHasMinimum = false;
  static constexpr int kSub = 32 + kNibbleBytes, kBytes = 64 + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + 64 + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int g) {
    return Simd::mul(Simd::load(reinterpret_cast<const float*>(b)), Simd::load_e4m3(sub(b, s) + 16 * g));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    return Simd::lookup(nibbles(sub(b, s) + 32, j), kRaisedFp4);
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
