#include "base/base64.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

TEST(Base64, BytesComeBackWithPaddingAndWithout) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 1'000; ++n) {
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    std::string text = base64(bytes);
    EXPECT_EQ(from_base64(text), bytes);
    while (text.ends_with('=')) text.pop_back();
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, WhatIsNoneIsRefused) {
  for (const char* text : {"A", "AAAAA", "AA A", "AA\n=", "a-_b", "=", "==A"}) {
    const bool empty = std::string_view(text) == "=";
    EXPECT_EQ(from_base64(text).has_value(), empty) << text;
  }
}

}  // namespace
}  // namespace espalier
