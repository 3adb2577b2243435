#include "base/sha256.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

std::string hex(const Sha256::Digest& digest) {
  std::string out;
  for (const std::uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    out += digits;
  }
  return out;
}

TEST(Sha256, IsWhatTheStandardSaysOfItsExamples) {
  const std::string_view text = "abc";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(Sha256::hex(bytes), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(Sha256::digest(bytes)), Sha256::hex(bytes));
}

TEST(KeyedDigest, IsWhatItsRfcSaysOfShortAndLongKeys) {  // RFC 4231, cases 2 and 6
  EXPECT_EQ(hex(keyed_digest("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(keyed_digest(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace espalier
