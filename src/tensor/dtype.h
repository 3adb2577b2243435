// dtype.h: element types of tensors as files store them, and the two 16-bit floats.
//
// A quantised type stores `elements` consecutive values of a row in one block of `bytes`; a row is a whole number of
// blocks. Layouts are those of the GGUF format (tensor/quant_blocks.h, iq_blocks.h) and, from g2_32 on, of rows that
// are put together out of other checkpoints (group_blocks.h); f8_e4m3 is the variant without infinities
// ("FN"), f8_e8m0 the power-of-two scale of the MX formats.
// Threads: values and pure functions. Fails: never.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier {

// The element types: plain numbers, GGUF's quantised blocks, and blocks of other checkpoints' rows.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  g2_32,
  g2_64,
  g2_128,
  g3_32,
  g3_128,
  g4_32,
  g4_128,
  g8_32,
  g8_128,
  f8_32,
  f8_128,
  nvfp4_g,
  nf4,
  fp4
};
inline constexpr int kDTypes = static_cast<int>(DType::fp4) + 1;  // they count from 0 without a gap

// How many values one stored block has, and how many bytes.
struct BlockShape {
  int elements;  // values in one block; 1 for plain types
  int bytes;
};

constexpr BlockShape block_shape(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return {1, 8};
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return {1, 4};
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return {1, 2};
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
      return {1, 1};
    case DType::q8_0:
      return {32, 34};
    case DType::q4_0:
      return {32, 18};
    case DType::q4_1:
      return {32, 20};
    case DType::q5_0:
      return {32, 22};
    case DType::q5_1:
      return {32, 24};
    case DType::q2_k:
      return {256, 84};
    case DType::q3_k:
      return {256, 110};
    case DType::q4_k:
      return {256, 144};
    case DType::q5_k:
      return {256, 176};
    case DType::q6_k:
      return {256, 210};
    case DType::iq4_nl:
      return {32, 18};
    case DType::iq4_xs:
      return {256, 136};
    case DType::iq1_s:
      return {256, 50};
    case DType::iq1_m:
      return {256, 56};
    case DType::iq2_xxs:
      return {256, 66};
    case DType::iq2_xs:
      return {256, 74};
    case DType::iq2_s:
      return {256, 82};
    case DType::iq3_xxs:
      return {256, 98};
    case DType::iq3_s:
      return {256, 110};
    case DType::tq1_0:
      return {256, 54};
    case DType::tq2_0:
      return {256, 66};
    case DType::mxfp4:
      return {32, 17};
    case DType::nvfp4:
      return {64, 36};
    case DType::g2_32:
    case DType::g3_32:
    case DType::g4_32:
    case DType::g8_32:
      return {32, 38};
    case DType::g2_64:
      return {64, 70};
    case DType::g2_128:
    case DType::g3_128:
    case DType::g4_128:
    case DType::g8_128:
      return {128, 134};
    case DType::f8_32:
      return {32, 36};
    case DType::nf4:
    case DType::fp4:
      return {64, 68};
    case DType::f8_128:
      return {128, 132};
    case DType::nvfp4_g:
      return {64, 72};
  }
  return {1, 1};
}

constexpr bool is_quantised(DType type) {
  return block_shape(type).elements > 1;
}

// Of rows that this program puts together; no file has them.
constexpr bool is_made(DType type) {
  return type >= DType::g2_32;
}

// Panels of G2 .. G4 keep a scale so many times as an f16: f16 and bf16 scales of weights all fit, being far below 1.
inline constexpr float kScaleRaise = 4096;

// Codes that are floats of eight bits.
constexpr bool is_float8(DType type) {
  return type == DType::f8_32 || type == DType::f8_128;
}

// Codes that are floats or places in a table of floats: they multiply activations that are floats too.
constexpr bool has_float_codes(DType type) {
  return is_float8(type) || type == DType::nf4 || type == DType::fp4;
}

std::string_view name(DType type);                     // "Q4_1", "BF16": as GGUF tools print them
std::optional<DType> dtype_named(std::string_view n);  // the inverse, upper or lower case

// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct bf16 {
  std::uint16_t bits = 0;
};
// IEEE 754's half precision: 5 bits of exponent, 10 of fraction.
struct f16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
constexpr bf16 to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Exact. Only normal floats take part, so a thread that flushes denormals to zero gets the same bits.
constexpr float to_float(f16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, as (2^-14 + mantissa * 2^-24) - 2^-14
    const float magnitude = std::bit_cast<float>(0x38800000u | (mantissa << 13)) - std::bit_cast<float>(0x38800000u);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide =
      exponent == 0x1fu ? 0xffu : exponent + 112u;  // bias 15 -> 127; infinity and NaN keep theirs
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// Round to nearest, ties to even; NaN stays NaN (quiet), too large becomes infinity.
constexpr f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto made = [&](std::uint32_t half) { return f16{static_cast<std::uint16_t>(sign | half)}; };
  if (magnitude > 0x7f800000u) return made(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return made(0x7c00u);  // 65520 and above round to infinity
  if (magnitude >= 0x38800000u) {                      // normal as f16; a carry out of the mantissa raises the exponent
    return made((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
  }
  if (magnitude <= 0x33000000u) return made(0);          // up to 2^-25, which ties to zero
  const std::uint32_t shift = 126u - (magnitude >> 23);  // denormal: 14..24
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
  return made(kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u));
}

constexpr bool operator==(bf16 a, bf16 b) {
  return a.bits == b.bits;
}  // the same bits, not the same number
constexpr bool operator==(f16 a, f16 b) {
  return a.bits == b.bits;
}

// The 8-bit floats; exact. f8_e4m3: 1-4-3, bias 7, 0x7f and 0xff are NaN, no infinity. f8_e5m2: the upper half of an
// f16. f8_e8m0: 2^(bits - 127), 0xff is NaN.
constexpr float f8_e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xfu, mantissa = bits & 7u;
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}
constexpr float f8_e5m2_to_float(std::uint8_t bits) {
  return to_float(f16{static_cast<std::uint16_t>(bits << 8)});
}
constexpr float f8_e8m0_to_float(std::uint8_t bits) {
  if (bits == 0xffu) return std::bit_cast<float>(0x7fc00000u);
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23);
}

}  // namespace espalier
