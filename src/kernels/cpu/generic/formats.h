// formats.h: how a micro-kernel reads each panel format (kernels/matmul/packed_matrix.h has the layouts).
//
// A quantised format is a set of static functions over one block of one panel:
//   kType                 what it is the panel format of
//   codes(block, s, j)    the 16 x 4 unsigned codes of sub-block s (32 values), group j of 4 (0..7)
//   scale(block, s, g)    per column; g is the group of 16 values when kGroups is 2, else 0
//   minimum(block, s, g)  per column, when kHasMinimum; value = scale * (code - kZeroPoint) + minimum
// kMostCode: the largest code. Below 128 AVX2 and NEON have a shorter dot product; the smaller, the shorter.
#pragma once

#include <cstdint>

#include "kernels/cpu/generic/row_part.h"
#include "tensor/dtype.h"

namespace espalier::kernels::ESPALIER_ISA {

inline constexpr int kHalfRow = 32;       // bytes of 16 f16 values
inline constexpr int kNibbleBytes = 256;  // 32 k x 16 columns x 4 bits
inline constexpr int kBitBytes = 64;      // 32 k x 16 columns x 1 bit

ESPALIER_LANES inline const std::uint16_t* halves(const std::uint8_t* p) {
  return reinterpret_cast<const std::uint16_t*>(p);
}

ESPALIER_LANES inline Simd::B nibbles(const std::uint8_t* p, int j) {
  Simd::B both = Simd::bload(p + 64 * (j & 3));
  return Simd::band(j < 4 ? both : Simd::shift_right(both, 4), Simd::bset1(15));
}

// Bit `j` of every byte, moved to bit `to`.
ESPALIER_LANES inline Simd::B one_bit(const std::uint8_t* p, int j, int to) {
  return Simd::shift_left(Simd::band(Simd::shift_right(Simd::bload(p), j), Simd::bset1(1)), to);
}

ESPALIER_LANES inline Simd::B two_bits(const std::uint8_t* p, int j, int to) {  // p: the two words of a sub-block
  Simd::B word = Simd::bload(p + kBitBytes * (j >> 2));
  return Simd::shift_left(Simd::band(Simd::shift_right(word, 2 * (j & 3)), Simd::bset1(3)), to);
}

// What formats with one scale for 32 values have in common.
struct LegacyBlock {
  static constexpr int kBlock = 32, kSubs = 1, kGroups = 1, kZeroPoint = 0;
  static constexpr bool kHasMinimum = false;
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) { return Simd::load_f16(halves(b)); }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t* b, int, int) {
    return Simd::load_f16(halves(b + kHalfRow));
  }
};

// Codes of eight bits and a scale.
struct Q8_0 : LegacyBlock {
  static constexpr DType kType = DType::q8_0;
  static constexpr int kBytes = kHalfRow + 512, kZeroPoint = 128, kMostCode = 255;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) { return Simd::bload(b + kHalfRow + 64 * j); }
};

// Codes of four bits around 8 and a scale.
struct Q4_0 : LegacyBlock {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kBytes = kHalfRow + kNibbleBytes, kZeroPoint = 8, kMostCode = 15;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) { return nibbles(b + kHalfRow, j); }
};

// Codes of four bits, a scale and a minimum.
struct Q4_1 : LegacyBlock {
  static constexpr DType kType = DType::q4_1;
  static constexpr int kBytes = 2 * kHalfRow + kNibbleBytes, kMostCode = 15;
  static constexpr bool kHasMinimum = true;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) { return nibbles(b + 2 * kHalfRow, j); }
};

// Codes of five bits around 16 and a scale.
struct Q5_0 : LegacyBlock {
  static constexpr DType kType = DType::q5_0;
  static constexpr int kBytes = kHalfRow + kBitBytes + kNibbleBytes, kZeroPoint = 16, kMostCode = 31;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) {
    return Simd::bor(nibbles(b + kHalfRow + kBitBytes, j), one_bit(b + kHalfRow, j, 4));
  }
};

// Codes of five bits, a scale and a minimum.
struct Q5_1 : LegacyBlock {
  static constexpr DType kType = DType::q5_1;
  static constexpr int kBytes = 2 * kHalfRow + kBitBytes + kNibbleBytes, kMostCode = 31;
  static constexpr bool kHasMinimum = true;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) {
    return Simd::bor(nibbles(b + 2 * kHalfRow + kBitBytes, j), one_bit(b + 2 * kHalfRow, j, 4));
  }
};

// The table of IQ4_NL and IQ4_XS, raised by 128.
ESPALIER_LANES constexpr std::uint8_t kNonLinear[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                        129, 141, 153, 166, 181, 197, 217, 241};

// Codes of four bits into a table of unequal steps, and a scale.
struct IQ4_NL : LegacyBlock {
  static constexpr DType kType = DType::iq4_nl;
  static constexpr int kBytes = kHalfRow + kNibbleBytes, kZeroPoint = 128, kMostCode = 241;
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int, int j) {
    return Simd::lookup(nibbles(b + kHalfRow, j), kNonLinear);
  }
};

// What formats with scales for parts of 256 values have in common.
struct SuperBlock {
  static constexpr int kBlock = 256, kSubs = 8, kGroups = 1, kZeroPoint = 0;
  static constexpr bool kHasMinimum = false;
};

// Codes of four or five bits, with a scale and a minimum for each 32 values.
template <bool kFifthBit>
struct Q45_K : SuperBlock {
  static constexpr DType kType = kFifthBit ? DType::q5_k : DType::q4_k;
  static constexpr int kSub = 32 + (kFifthBit ? kBitBytes : 0) + kNibbleBytes;
  static constexpr int kBytes = 2 * kHalfRow + kSubs * kSub, kMostCode = kFifthBit ? 31 : 15;
  static constexpr bool kHasMinimum = true;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + 2 * kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int) {
    return Simd::mul(Simd::load_f16(halves(b)), Simd::load_u8(sub(b, s)));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t* b, int s, int) {
    return Simd::sub(Simd::zero(), Simd::mul(Simd::load_f16(halves(b + kHalfRow)), Simd::load_u8(sub(b, s) + 16)));
  }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    const std::uint8_t* p = sub(b, s) + 32;
    if constexpr (kFifthBit) return Simd::bor(nibbles(p + kBitBytes, j), one_bit(p, j, 4));
    return nibbles(p, j);
  }
};
using Q4_K = Q45_K<false>;
using Q5_K = Q45_K<true>;

// Codes of six bits around 32, with a scale for each 16 values.
struct Q6_K : SuperBlock {
  static constexpr DType kType = DType::q6_k;
  static constexpr int kSub = 32 + 2 * kBitBytes + kNibbleBytes, kGroups = 2, kZeroPoint = 32, kMostCode = 63;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int g) {
    return Simd::mul(Simd::load_f16(halves(b)),
                     Simd::load_i8(reinterpret_cast<const std::int8_t*>(sub(b, s)) + 16 * g));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    const std::uint8_t* p = sub(b, s) + 32;
    return Simd::bor(nibbles(p + 2 * kBitBytes, j), two_bits(p, j, 4));
  }
};

// Codes of three bits around 4, with a scale for each 16 values.
struct Q3_K : SuperBlock {
  static constexpr DType kType = DType::q3_k;
  static constexpr int kSub = 32 + 3 * kBitBytes, kGroups = 2, kZeroPoint = 4, kMostCode = 7;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int g) {
    return Simd::mul(Simd::load_f16(halves(b)),
                     Simd::load_i8(reinterpret_cast<const std::int8_t*>(sub(b, s)) + 16 * g));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    const std::uint8_t* p = sub(b, s) + 32;
    return Simd::bor(two_bits(p + kBitBytes, j, 0), one_bit(p, j, 2));
  }
};

// Codes of two bits, with a scale and a minimum for each 16 values.
struct Q2_K : SuperBlock {
  static constexpr DType kType = DType::q2_k;
  static constexpr int kSub = 32 + 2 * kBitBytes, kGroups = 2, kMostCode = 3;
  static constexpr int kBytes = 2 * kHalfRow + kSubs * kSub;
  static constexpr bool kHasMinimum = true;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + 2 * kHalfRow + s * kSub; }
  // One byte holds scale (low) and minimum (high): v = low + 16 * high, split without integer lanes of bytes.
  ESPALIER_LANES static void split(const std::uint8_t* p, Simd::F& low, Simd::F& high) {
#ifdef ESPALIER_LANES_ARE_THREADS
    Simd::load_nibbles(p, low, high);
#else
    std::uint8_t parts[2][16];
    for (int i = 0; i < 16; ++i) {
      parts[0][i] = p[i] & 15;
      parts[1][i] = p[i] >> 4;
    }
    low = Simd::load_u8(parts[0]);
    high = Simd::load_u8(parts[1]);
#endif
  }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int g) {
    Simd::F low, high;
    split(sub(b, s) + 16 * g, low, high);
    return Simd::mul(Simd::load_f16(halves(b)), low);
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t* b, int s, int g) {
    Simd::F low, high;
    split(sub(b, s) + 16 * g, low, high);
    return Simd::sub(Simd::zero(), Simd::mul(Simd::load_f16(halves(b + kHalfRow)), high));
  }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) { return two_bits(sub(b, s) + 32, j, 0); }
};

// Codes of four bits into a table of unequal steps, with a scale for each 32 values.
struct IQ4_XS : SuperBlock {
  static constexpr DType kType = DType::iq4_xs;
  static constexpr int kSub = 16 + kNibbleBytes, kZeroPoint = 128, kMostCode = 241;
  static constexpr int kBytes = kHalfRow + kSubs * kSub;
  ESPALIER_LANES static const std::uint8_t* sub(const std::uint8_t* b, int s) { return b + kHalfRow + s * kSub; }
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int s, int) {
    return Simd::mul(Simd::load_f16(halves(b)), Simd::load_i8(reinterpret_cast<const std::int8_t*>(sub(b, s))));
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t*, int, int) { return Simd::zero(); }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    return Simd::lookup(nibbles(sub(b, s) + 16, j), kNonLinear);
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
