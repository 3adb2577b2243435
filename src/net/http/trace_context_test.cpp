// traceparent: what is one, what is none, and what follows from it.
#include "net/http/trace_context.h"

#include <gtest/gtest.h>

namespace espalier::net {
namespace trace_context_test {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kGood = std::string("00-") + kTrace + "-b7ad6b7169203331-01";

TEST(TraceContext, ACallersTraceGoesOnWithASpanOfOurs) {
  const TraceContext context = continue_trace(kGood, "vendor=1", 0x10, 7, 8);
  EXPECT_EQ(context.trace_id, kTrace);
  EXPECT_EQ(context.parent_id, "b7ad6b7169203331");
  EXPECT_EQ(context.traceparent(), std::string("00-") + kTrace + "-0000000000000011-01");
  EXPECT_EQ(context.state, "vendor=1");
}

TEST(TraceContext, WhatIsNoneBeginsATrace) {
  for (const std::string& wrong :
       {std::string(), std::string("00"), kGood.substr(1), kGood + "-more", kGood + "x", "ff" + kGood.substr(2),
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-") + kTrace + "-0000000000000000-01", std::string("00-") + kTrace + "-B7AD6B7169203331-01",
        std::string("00-") + kTrace + "-b7ad6b7169203331-0g", "zz" + kGood.substr(2)}) {
    EXPECT_FALSE(parse_traceparent(wrong).has_value()) << wrong;
    const TraceContext context = continue_trace(wrong, "vendor=1", 0, 0, 0);
    EXPECT_EQ(context.trace_id, "00000000000000000000000000000001");
    EXPECT_EQ(context.parent_id, "");
    EXPECT_EQ(context.state, "");
  }
}

TEST(TraceContext, LaterVersionsAndOtherFlagsAreReadAsFarAsTheyAreKnown) {
  EXPECT_TRUE(parse_traceparent("01" + kGood.substr(2) + "-more").has_value());
  EXPECT_FALSE(parse_traceparent(kGood.substr(0, 53) + "00")->sampled);
  EXPECT_TRUE(parse_traceparent(kGood.substr(0, 53) + "0b")->sampled);
  EXPECT_FALSE(parse_traceparent(kGood.substr(0, 53) + "fe")->sampled);
}

}  // namespace trace_context_test
}  // namespace espalier::net
