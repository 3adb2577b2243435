#include "sampling/noise.h"

#include <gtest/gtest.h>

#include <set>

namespace espalier {
namespace {

using Block = std::array<std::uint32_t, 4>;

TEST(Noise, PhiloxGivesItsPublishedTestVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Noise, DependsOnSeedChoiceAndPositionAlone) {
  EXPECT_EQ(Noise(5, 1).uniform(77), Noise(5, 1).uniform(77));
  std::set<double> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32, ~0ull}) {
    for (std::uint32_t choice : {0u, 1u, 63u}) {
      for (std::uint64_t position : {0ull, 1ull, 1ull << 32}) seen.insert(Noise(seed, choice).uniform(position));
    }
  }
  EXPECT_EQ(seen.size(), 36u);
}

TEST(Noise, IsUniform) {
  constexpr int draws = 200000;
  constexpr int cells = 100;
  std::array<int, cells> count{};
  double mean = 0;
  for (int i = 0; i < draws; ++i) {
    double u = Noise(12345).uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    mean += u / draws;
    ++count[static_cast<int>(u * cells)];
  }
  EXPECT_NEAR(mean, 0.5, 0.003);
  constexpr double expected = static_cast<double>(draws) / cells;
  double chi = 0;
  for (int c : count) chi += (c - expected) * (c - expected) / expected;
  EXPECT_LT(chi, 160);  // 99 degrees of freedom: far beyond the 99.9 % point, 148
}

TEST(Noise, RequestsWithoutASeedGetDifferentOnes) {
  EXPECT_NE(random_seed(), random_seed());
}

}  // namespace
}  // namespace espalier
