#include "lang/backends/remote/wire/select_wire.h"

#include <gtest/gtest.h>

namespace espalier::lang {
namespace {

TEST(SelectWire, EntriesAreReadWithoutTheFirstTokensNull) {
  const Json entries = Json::parse(R"([[null, 5, "x"], [-0.5, 7, " y"], [-1, null, null], [-2, 9]])");
  const auto tokens = read_token_entries(&entries, "a server");
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  ASSERT_EQ(tokens->size(), 3u);
  EXPECT_EQ((*tokens)[0].logprob, -0.5);
  EXPECT_EQ((*tokens)[0].id, 7);
  EXPECT_EQ((*tokens)[0].text, " y");
  EXPECT_EQ((*tokens)[1].id, -1);
  EXPECT_EQ((*tokens)[1].text, "");
  EXPECT_EQ((*tokens)[2].id, 9);
}

TEST(SelectWire, WhatAreNoEntriesIsAnErrorThatNamesTheServer) {
  EXPECT_FALSE(read_token_entries(nullptr, "a server").ok());
  for (const char* text : {R"({})", R"([7])", R"([[-1]])", R"([["-1", 5, "x"]])", R"([[-1, 0.5, "x"]])",
                           R"([[-1, 5, 6]])", R"([[-1, 5, "x"], [null, 6, "y"]])"}) {
    const Json entries = Json::parse(text);
    const auto tokens = read_token_entries(&entries, "a server");
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_EQ(tokens.error().kind, Error::Kind::network);
    EXPECT_NE(tokens.error().message.find("a server"), std::string::npos);
  }
}

}  // namespace
}  // namespace espalier::lang
