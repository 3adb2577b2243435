#include "base/sockets/wire_fields.h"

#include <gtest/gtest.h>

namespace espalier::wire_fields_test {
namespace {

TEST(WireFields, NumbersAndTextsComeBackAsTheyWent) {
  WireWriter writer;
  writer.number(0x0102'0304'0506'0708, 8).number(0xabcd, 2).text(std::string("a\0b", 3)).text("").number(UINT64_MAX, 8);
  EXPECT_EQ(writer.bytes.substr(0, 2), "\x08\x07") << "the lowest byte first";
  WireReader reader(writer.bytes);
  EXPECT_EQ(reader.number(8), 0x0102'0304'0506'0708u);
  EXPECT_EQ(reader.number(2), 0xabcdu);
  EXPECT_EQ(reader.text(3), std::string("a\0b", 3));
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.text(0), "");
  EXPECT_EQ(reader.number(8), UINT64_MAX);
  EXPECT_TRUE(reader.done());
  EXPECT_FALSE(reader.bad());
}

TEST(WireFields, NumbersAreCutToTheirBytes) {
  EXPECT_EQ(WireWriter().number(0x1234'5678, 2).bytes, "\x78\x56");
  EXPECT_EQ(WireWriter().number(7, 0).bytes, "");
}

TEST(WireFields, WhatIsNotThereIsNothingFromThenOn) {
  WireReader reader("\1\2\3");
  EXPECT_EQ(reader.number(4), 0u);
  EXPECT_TRUE(reader.bad());
  EXPECT_EQ(reader.number(1), 0u) << "though it would be there";
  EXPECT_EQ(reader.text(10), "");
  EXPECT_EQ(reader.take(1), "");
  EXPECT_FALSE(reader.done());
}

TEST(WireFields, TextsOfMoreThanTheyMayHaveAreBad) {
  const std::string bytes = WireWriter().text("twelve bytes").bytes + "x";
  EXPECT_EQ(WireReader(bytes).text(12), "twelve bytes");
  WireReader reader(bytes);
  EXPECT_EQ(reader.text(11), "");
  EXPECT_TRUE(reader.bad());
  WireReader cut(std::string_view(bytes).substr(0, 5));
  EXPECT_EQ(cut.text(100), "");
  EXPECT_TRUE(cut.bad());
}

TEST(WireFields, TextsAreCutToWhatTheirLengthCanSay) {
  const std::string bytes = WireWriter().text(std::string(70'000, 'x')).bytes;
  EXPECT_EQ(bytes.size(), 2 + 0xffffu);
  EXPECT_EQ(WireReader(bytes).text(0xffff).size(), 0xffffu);
}

}  // namespace
}  // namespace espalier::wire_fields_test
