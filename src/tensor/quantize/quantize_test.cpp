#include "tensor/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/decode.h"
#include "tensor/encode.h"
#include "tensor/quantize/groups.h"
#include "tensor/tensor.h"

namespace espalier::quantize_test {
namespace {

constexpr DType kTypes[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,   DType::q5_1,   DType::q2_k,
                            DType::q3_k, DType::q4_k, DType::q5_k, DType::iq4_nl, DType::iq4_xs, DType::q6_k};

// Values as matrices of models have them: mostly small, some far out.
std::vector<float> heavy_tailed(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> values(5.0f);
  std::vector<float> out(count);
  for (float& value : out) value = 0.02f * values(random);
  return out;
}

std::vector<std::byte> stored(DType type, std::span<const float> row, std::span<const float> importance = {}) {
  const BlockShape block = block_shape(type);
  std::vector<std::byte> out(row.size() / static_cast<std::size_t>(block.elements) *
                             static_cast<std::size_t>(block.bytes));
  quantize_row(type, row, importance, out);
  return out;
}

std::vector<float> decoded(DType type, std::span<const std::byte> bytes, std::size_t count) {
  std::vector<float> out(count);
  decode_row(type, bytes, out);
  return out;
}

double error(std::span<const float> a, std::span<const float> b, std::span<const float> weights = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double e = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += e * e * (weights.empty() ? 1.0 : static_cast<double>(weights[i]));
  }
  return sum;
}

double share_of_error(DType type, std::span<const float> row) {
  const std::vector<float> zeros(row.size());
  return std::sqrt(error(row, decoded(type, stored(type, row), row.size())) / error(row, zeros));
}

TEST(Quantize, EveryTypeKeepsAsMuchAsItsBitsAllow) {
  const std::vector<float> row = heavy_tailed(256 * 64, 1);
  const std::pair<DType, double> most[] = {{DType::q8_0, 0.007},   {DType::q6_k, 0.021}, {DType::q5_k, 0.041},
                                           {DType::q5_1, 0.040},   {DType::q5_0, 0.053}, {DType::q4_k, 0.083},
                                           {DType::q4_1, 0.083},   {DType::q4_0, 0.106}, {DType::iq4_xs, 0.089},
                                           {DType::iq4_nl, 0.088}, {DType::q3_k, 0.175}, {DType::q2_k, 0.305}};
  for (const auto& [type, bound] : most) EXPECT_LT(share_of_error(type, row), bound) << name(type);
}

TEST(Quantize, AWiderTypeOfAFamilyLosesLess) {
  const std::vector<float> row = heavy_tailed(256 * 32, 2);
  const DType falling[] = {DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k, DType::q8_0};
  for (std::size_t i = 1; i < std::size(falling); ++i)
    EXPECT_LT(share_of_error(falling[i], row), share_of_error(falling[i - 1], row)) << name(falling[i]);
}

TEST(Quantize, SearchedScalesBeatThePlainRule) {
  const std::vector<float> row = heavy_tailed(256 * 64, 3);
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_1}) {
    const auto plain = encode(type, row, static_cast<std::int64_t>(row.size()));
    EXPECT_LT(error(row, decoded(type, stored(type, row), row.size())), error(row, decoded(type, plain, row.size())))
        << name(type);
  }
}

TEST(Quantize, ColumnsThatCountMoreLoseLess) {
  const std::vector<float> row = heavy_tailed(256 * 64, 4);
  std::mt19937 random(5);
  std::lognormal_distribution<float> sizes(0.0f, 1.5f);
  std::vector<float> importance(row.size());
  for (float& one : importance) one = sizes(random);
  for (const DType type : kTypes) {
    const auto plain = decoded(type, stored(type, row), row.size()),
               weighed = decoded(type, stored(type, row, importance), row.size());
    EXPECT_LT(error(row, weighed, importance), error(row, plain, importance)) << name(type);
  }
}

TEST(Quantize, ValuesThatATypeHoldsStayWhatTheyAre) {
  const std::vector<float> row = heavy_tailed(256 * 16, 6);
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl}) {
    const auto once = decoded(type, stored(type, row), row.size());
    const auto twice = decoded(type, stored(type, once), row.size());
    EXPECT_LT(std::sqrt(error(once, twice) / error(once, std::vector<float>(once.size()))), 1e-3) << name(type);
  }
}

TEST(Quantize, ZerosAndConstantsAndTinyValuesAreNoTrouble) {
  for (const DType type : kTypes)
    for (const float value : {0.0f, 1.0f, -3.5f, 1e-7f, 1e-30f, 60000.0f}) {
      const std::vector<float> row(512, value);
      const auto back = decoded(type, stored(type, row), row.size());
      for (const float one : back) {
        ASSERT_TRUE(std::isfinite(one)) << name(type) << " " << value;
        ASSERT_LE(std::fabs(one - value), 0.13f * std::fabs(value) + 1e-6f) << name(type) << " " << value;
      }
    }
}

TEST(Quantize, ASingleLargeValueDoesNotDrownTheOthers) {
  for (const DType type : kTypes) {
    std::vector<float> row = heavy_tailed(512, 7);
    row[100] = 4.0f;
    const auto back = decoded(type, stored(type, row), row.size());
    EXPECT_NEAR(back[100], 4.0f, 0.7f) << name(type);
    EXPECT_LT(error(std::span(row).subspan(256), std::span(back).subspan(256)),
              error(std::span(row).subspan(256), std::vector<float>(256)) * 0.11)
        << name(type);
  }
}

TEST(Groups, CodesAndScaleGiveBackTheValues) {
  const std::vector<float> row = heavy_tailed(128, 8);
  for (const int bits : {2, 3, 4, 8})
    for (const bool symmetric : {true, false}) {
      const GroupForm form{bits, symmetric, DType::bf16};
      const GroupScale scale = fit_group(row, {}, form);
      EXPECT_EQ(scale.scale, rounded_to(DType::bf16, scale.scale));
      EXPECT_TRUE(!symmetric || scale.zero == 0);
      double lost = 0, all = 0;
      for (const float value : row) {
        const int code = code_of(value, scale, form);
        ASSERT_GE(code, form.low());
        ASSERT_LE(code, form.high());
        lost += std::pow(static_cast<double>(value - value_of(code, scale)), 2);
        all += std::pow(static_cast<double>(value), 2);
      }
      EXPECT_LT(std::sqrt(lost / all), 2.4 / (1 << bits)) << bits << symmetric;
    }
}

TEST(Groups, AnOffCentreRunIsBetterWithAZeroPoint) {
  std::vector<float> row = heavy_tailed(64, 9);
  for (float& value : row) value = std::fabs(value) + 0.01f;
  const auto lost = [&](bool symmetric) {
    const GroupForm form{4, symmetric, DType::f32};
    const GroupScale scale = fit_group(row, {}, form);
    double sum = 0;
    for (const float value : row)
      sum += std::pow(static_cast<double>(value - value_of(code_of(value, scale, form), scale)), 2);
    return sum;
  };
  EXPECT_LT(lost(false), 0.5 * lost(true));
}

TEST(Groups, ZerosStayZeros) {
  const std::vector<float> row(32, 0.0f);
  for (const bool symmetric : {true, false}) {
    const GroupForm form{4, symmetric, DType::bf16};
    const GroupScale scale = fit_group(row, {}, form);
    ASSERT_GT(scale.scale, 0);
    EXPECT_EQ(value_of(code_of(0.0f, scale, form), scale), 0.0f);
  }
}

}  // namespace
}  // namespace espalier::quantize_test
