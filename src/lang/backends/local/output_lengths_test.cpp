#include "lang/backends/local/output_lengths.h"

#include <gtest/gtest.h>

namespace espalier::lang {
namespace {

GenCall call(int tokens, std::vector<std::string> stop = {}) {
  GenCall call;
  call.sampling.max_new_tokens = tokens;
  call.sampling.stop = std::move(stop);
  return call;
}

TEST(OutputLengths, AreExpectedOnceSomeWereSeenAndFollowWhatIsSeen) {
  OutputLengths lengths;
  const auto kind = OutputLengths::kind_of(call(100));
  EXPECT_EQ(lengths.expected(kind), 0);
  for (int i = 0; i < 3; ++i) lengths.saw(kind, 12);
  EXPECT_EQ(lengths.expected(kind), 0);
  lengths.saw(kind, 12);
  EXPECT_EQ(lengths.expected(kind), 12);
  for (int i = 0; i < 100; ++i) lengths.saw(kind, i % 2 == 0 ? 30 : 50);
  EXPECT_GE(lengths.expected(kind), 45) << "the mean of 40, and how far they lie from it";
  EXPECT_LE(lengths.expected(kind), 55);
}

TEST(OutputLengths, OfOtherKindsSayNothing) {
  OutputLengths lengths;
  for (int i = 0; i < 9; ++i) lengths.saw(OutputLengths::kind_of(call(100, {"a"})), 12);
  EXPECT_EQ(lengths.expected(OutputLengths::kind_of(call(100, {"a"}))), 12);
  EXPECT_EQ(lengths.expected(OutputLengths::kind_of(call(100, {"b"}))), 0);
  EXPECT_EQ(lengths.expected(OutputLengths::kind_of(call(101, {"a"}))), 0);
  GenCall constrained = call(100, {"a"});
  constrained.constraint = {Constraint::Kind::regex, "x"};
  EXPECT_EQ(lengths.expected(OutputLengths::kind_of(constrained)), 0);
}

}  // namespace
}  // namespace espalier::lang
