// dtype.h: element types of tensors as files store them, and the two 16-bit floats.
//
// A quantised type stores `elements` consecutive values of a row in one block of `bytes`; a row is a whole number of
// blocks. Layouts are those of the GGUF format (tensor/quant_blocks.h).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier {

enum class DType : std::uint8_t {
  f32, f16, bf16, f64, i8, i16, i32, i64, u8, boolean,
  f8_e4m3, f8_e5m2,
  q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs,
};

struct BlockShape {
  int elements;  // values in one block; 1 for plain types
  int bytes;
};

constexpr BlockShape block_shape(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return {1, 8};
    case DType::f32:
    case DType::i32: return {1, 4};
    case DType::f16:
    case DType::bf16:
    case DType::i16: return {1, 2};
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2: return {1, 1};
    case DType::q8_0: return {32, 34};
    case DType::q4_0: return {32, 18};
    case DType::q4_1: return {32, 20};
    case DType::q5_0: return {32, 22};
    case DType::q5_1: return {32, 24};
    case DType::q2_k: return {256, 84};
    case DType::q3_k: return {256, 110};
    case DType::q4_k: return {256, 144};
    case DType::q5_k: return {256, 176};
    case DType::q6_k: return {256, 210};
    case DType::iq4_nl: return {32, 18};
    case DType::iq4_xs: return {256, 136};
  }
  return {1, 1};
}

constexpr bool is_quantised(DType type) { return block_shape(type).elements > 1; }

std::string_view name(DType type);                     // "Q4_1", "BF16": as GGUF tools print them
std::optional<DType> dtype_named(std::string_view n);  // the inverse, upper or lower case

struct bf16 {
  std::uint16_t bits = 0;
};
struct f16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
constexpr bf16 to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

float to_float(f16 value);
f16 to_f16(float value);  // round to nearest, ties to even

}  // namespace espalier
