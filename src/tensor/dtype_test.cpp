#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/tensor.h"
#include "testing/data.h"

namespace espalier {
namespace {

// The value of an f16 from its definition, in double.
double f16_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(DType, EveryF16BecomesItsValueAndComesBack) {
  for (int i = 0; i < 65536; ++i) {
    const f16 half{static_cast<std::uint16_t>(i)};
    const double expected = f16_by_definition(half.bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(to_float(half)));
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(half)))));
    } else {
      EXPECT_EQ(static_cast<double>(to_float(half)), expected) << i;
      EXPECT_EQ(std::signbit(to_float(half)), std::signbit(expected)) << i;
      EXPECT_EQ(to_f16(to_float(half)), half) << i;
    }
  }
}

TEST(DType, FloatsRoundToTheNearestF16AndTiesToEven) {
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 500'000; ++i) {
    float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (i % 2 == 0) {  // half-way between two neighbours, or next to it
      const int low = static_cast<int>(random() % 0x7bff);
      value = static_cast<float>((f16_by_definition(low) + f16_by_definition(low + 1)) / 2);
      if (i % 4 == 0) value = std::nextafter(value, random() % 2 ? 1e9f : -1e9f);
    }
    if (std::isnan(value)) continue;
    const f16 got = to_f16(value);
    if (std::fabs(value) >= 65520) {
      ASSERT_EQ(got.bits & 0x7fff, 0x7c00) << value;
      continue;
    }
    const double error = std::fabs(f16_by_definition(got.bits) - value);
    const std::uint16_t magnitude = got.bits & 0x7fff, sign = got.bits & 0x8000;
    for (const int other : {magnitude - 1, magnitude + 1}) {
      if (other < 0 || other >= 0x7c00) continue;
      const double distance = std::fabs(f16_by_definition(static_cast<std::uint16_t>(other | sign)) - value);
      ASSERT_TRUE(error < distance || (error == distance && magnitude % 2 == 0)) << value;
    }
  }
}

TEST(DType, Bf16IsTheRoundedUpperHalf) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(DType, EightBitFloatsHaveTheirDefinedValues) {
  EXPECT_EQ(f8_e4m3_to_float(0x00), 0.0f);
  EXPECT_EQ(f8_e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_float(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_float(0x38), 1.0f);
  EXPECT_EQ(f8_e4m3_to_float(0xb9), -1.125f);
  EXPECT_EQ(f8_e4m3_to_float(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0x7f)) && std::isnan(f8_e4m3_to_float(0xff)));
  EXPECT_TRUE(std::signbit(f8_e4m3_to_float(0x80)));
  EXPECT_EQ(f8_e5m2_to_float(0x3c), 1.0f);
  EXPECT_EQ(f8_e5m2_to_float(0x7b), 57344.0f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_float(0x7c)));
  EXPECT_EQ(f8_e8m0_to_float(127), 1.0f);
  EXPECT_EQ(f8_e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(f8_e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(f8_e8m0_to_float(255)));
}

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i < kDTypes; ++i) EXPECT_EQ(dtype_named(name(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(dtype_named("q4_k"), DType::q4_k);
  EXPECT_EQ(dtype_named("Q4_K_M"), std::nullopt);
}

TEST(Tensor, StoredBytesRefusesWhatDoesNotFit) {
  const auto bytes = [](DType type, Shape shape) { return stored_bytes(type, shape); };
  EXPECT_EQ(bytes(DType::f32, {}), 4u);
  EXPECT_EQ(bytes(DType::f32, {3, 5}), 60u);
  EXPECT_EQ(bytes(DType::f32, {3, 0, 5}), 0u);
  EXPECT_EQ(bytes(DType::q4_k, {2, 512}), 2u * 2 * 144);
  EXPECT_EQ(bytes(DType::q4_k, {512, 128}), std::nullopt);
  EXPECT_EQ(bytes(DType::q4_k, {}), std::nullopt);
  EXPECT_EQ(bytes(DType::i8, {-1}), std::nullopt);
  EXPECT_EQ(bytes(DType::i8, {INT64_MAX}), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(bytes(DType::f32, {INT64_MAX / 4 + 1}), std::nullopt);
  EXPECT_EQ(bytes(DType::i8, {std::int64_t{1} << 32, std::int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(bytes(DType::i8, {std::int64_t{1} << 32, std::int64_t{1} << 32, 0}), std::nullopt);
  EXPECT_EQ(bytes(DType::q2_k, {std::int64_t{1} << 62, 256}), std::nullopt);
}

}  // namespace
}  // namespace espalier
