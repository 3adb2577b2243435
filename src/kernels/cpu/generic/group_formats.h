// group_formats.h: how a micro-kernel reads panels of quantised Hugging Face checkpoints: codes with a float32 scale and
// a zero point for each group, and codes that are floats. See formats.h.
//
// A float format (has_float_codes()) has value(block, step, b) instead of codes(): value b of the four of `step`, to be
// multiplied by scale().
#pragma once

#include <array>

#include "kernels/cpu/generic/formats.h"
#include "kernels/cpu/generic/row_part.h"
#include "tensor/group_blocks.h"

namespace espalier::kernels::ESPALIER_ISA {

ESPALIER_LANES inline const float* floats(const std::uint8_t* p) {
  return reinterpret_cast<const float*>(p);
}

// Codes of 2, 3, 4 or 8 bits, a scale and a zero point for 32, 64 or 128 values. Scales of less than eight bits are f16 and
// raised (kScaleRaise); a power of two takes them back exactly.
template <DType kOf, int kBits, int kParts>
struct Group {
  static constexpr DType kType = kOf;
  static constexpr int kBlock = 32 * kParts, kSubs = kParts, kGroups = 1;
  static constexpr int kZeroPoint = kBits == 8 ? 128 : 0, kMostCode = (1 << kBits) - 1;
  static constexpr bool kHasMinimum = true, kColumnZero = true;
  static constexpr int kScaleBytes = kBits == 8 ? 64 : 32;
  static constexpr int kFirst = kBits == 8 ? (kParts == 4 ? 128 : 96) : (kParts == 4 ? 64 : 48);
  static constexpr int kSub = kBits * kBitBytes, kBytes = kFirst + kSubs * kSub;

  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) {
    if constexpr (kBits == 8) return Simd::load(floats(b));
    return Simd::mul(Simd::load_f16(halves(b)), Simd::set1(1 / kScaleRaise));
  }
  // Beyond kZeroPoint.
  ESPALIER_LANES static Simd::F zero(const std::uint8_t* b) {
    if constexpr (kBits == 8) return Simd::load_f16(halves(b + kScaleBytes));
    return Simd::load_u8(b + kScaleBytes);
  }
  ESPALIER_LANES static Simd::F minimum(const std::uint8_t* b, int, int) {
    return Simd::sub(Simd::zero(), Simd::mul(scale(b, 0, 0), zero(b)));
  }
  ESPALIER_LANES static Simd::B codes(const std::uint8_t* b, int s, int j) {
    const std::uint8_t* p = b + kFirst + s * kSub;
    if constexpr (kBits == 2) return two_bits(p, j, 0);
    if constexpr (kBits == 3) return Simd::bor(two_bits(p + kBitBytes, j, 0), one_bit(p, j, 2));
    if constexpr (kBits == 4) return nibbles(p, j);
    return Simd::bload(p + 64 * j);
  }
};

// Floats of eight bits and a scale.
template <DType kOf, int kValues>
struct Float8 {
  static constexpr DType kType = kOf;
  static constexpr int kBlock = kValues, kGroups = 1, kBytes = 64 + 16 * kValues;
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) { return Simd::load(floats(b)); }
  // Exponent and mantissa moved into place, bias 7 made 127 by a factor.
  ESPALIER_LANES static Simd::F value(const std::uint8_t* b, int step, int i) {
    const Simd::B top = Simd::shift_left(Simd::bload(b + 64 + 64 * step), 24 - 8 * i);
    const Simd::B magnitude = Simd::shift_right(Simd::shift_left(Simd::shift_right(top, 24), 25), 5);
    const Simd::B sign = Simd::shift_left(Simd::shift_right(top, 31), 31);
    return Simd::mul(Simd::as_floats(Simd::bor(magnitude, sign)), Simd::set1(0x1p120f));
  }
};

// Codes of four bits into a table of floats, and a scale.
template <DType kOf, const std::array<float, 16>& kTable>
struct FourBitFloats {
  static constexpr DType kType = kOf;
  static constexpr int kBlock = 64, kGroups = 1, kBytes = 64 + 2 * kNibbleBytes;
  ESPALIER_LANES static Simd::F scale(const std::uint8_t* b, int, int) { return Simd::load(floats(b)); }
  ESPALIER_LANES static Simd::F value(const std::uint8_t* b, int step, int i) {
    const Simd::B both = Simd::bload(b + 64 + step / 8 * kNibbleBytes + 64 * (step & 3));
#ifdef __CUDACC__
    static constexpr std::array<float, 16> values = kTable;  // the host's table is not the device's
#else
    constexpr const std::array<float, 16>& values = kTable;
#endif
    return Simd::lookup_floats(Simd::shift_right(both, 8 * i + (step & 4)), values.data());
  }
};

// choose.operator()<Format>() for a format of floats; a null pointer for any other type.
template <class Choose>
ESPALIER_LANES auto choose_float_format(DType type, Choose choose) -> decltype(choose.template operator()<Q8_0>()) {
  switch (type) {
    case DType::f8_32:
      return choose.template operator()<Float8<DType::f8_32, 32>>();
    case DType::f8_128:
      return choose.template operator()<Float8<DType::f8_128, 128>>();
    case DType::nf4:
      return choose.template operator()<FourBitFloats<DType::nf4, kNf4Values>>();
    case DType::fp4:
      return choose.template operator()<FourBitFloats<DType::fp4, kFp4Table>>();
    default:
      return nullptr;
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
