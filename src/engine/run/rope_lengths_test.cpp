#include "engine/run/rope_lengths.h"

#include <gtest/gtest.h>

#include <limits>

namespace espalier::rope_lengths_test {
namespace {

RopeSpec longrope(std::int64_t after) {
  RopeSpec spec;
  spec.long_after = after;
  return spec;
}
RopeSpec dynamic(std::int64_t after) {
  RopeSpec spec = longrope(after);
  spec.dynamic_factor = 2;
  return spec;
}

TEST(RopeLengths, AModelOfOneTableHasOneClassAndTheScopesOfItsRequests) {
  const RopeSpec plain;
  const RopeLengths lengths(std::span(&plain, 1), 64);
  EXPECT_FALSE(lengths.any());
  EXPECT_EQ(lengths.of(1 << 20), 0);
  EXPECT_EQ(lengths.longest_alike(5), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(lengths.scope("salt", 0), "salt");
}

TEST(RopeLengths, LongropeHasTwoClasses) {
  const RopeSpec spec = longrope(80);
  const RopeLengths lengths(std::span(&spec, 1), 64);
  EXPECT_EQ(lengths.of(80), 0);
  EXPECT_EQ(lengths.of(81), 81);
  EXPECT_EQ(lengths.of(100'000), 81);
  EXPECT_EQ(lengths.longest_alike(3), 80);
  EXPECT_EQ(lengths.longest_alike(81), std::numeric_limits<std::int64_t>::max());
}

TEST(RopeLengths, DynamicClassesAreAsLongAsTheStep) {
  const RopeSpec spec = dynamic(100);
  const RopeLengths lengths(std::span(&spec, 1), 64), exact(std::span(&spec, 1), 1);
  EXPECT_EQ(lengths.of(100), 0);
  for (const std::int64_t length : {101, 164}) EXPECT_EQ(lengths.of(length), 164);
  EXPECT_EQ(lengths.of(165), 228);
  EXPECT_EQ(lengths.longest_alike(165), 228);
  for (const std::int64_t length : {101, 102, 5000}) EXPECT_EQ(exact.of(length), length);
}

TEST(RopeLengths, EqualClassesAreExactlyThoseUpToTheLongestAlike) {
  const RopeSpec specs[] = {longrope(40), dynamic(25), longrope(90)};
  const RopeLengths lengths(specs, 16);
  for (std::int64_t length = 1; length < 300; ++length) {
    const std::int64_t longest = lengths.longest_alike(length);
    ASSERT_GE(longest, length);
    ASSERT_EQ(lengths.of(std::min<std::int64_t>(longest, 1000)), lengths.of(length)) << length;
    if (longest < 1000) {
      ASSERT_NE(lengths.of(longest + 1), lengths.of(length)) << length;
    }
  }
}

TEST(RopeLengths, NoScopeIsAnotherScopesClass) {
  const RopeSpec spec = longrope(80);
  const RopeLengths lengths(std::span(&spec, 1), 64);
  EXPECT_NE(lengths.scope("a", 0), lengths.scope("a", 81));
  EXPECT_NE(lengths.scope("81\x1f"
                          "a",
                          0),
            lengths.scope("a", 81));
}

}  // namespace
}  // namespace espalier::rope_lengths_test
