#include "cache/disk/prefix_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "testing/data.h"

namespace espalier::prefix_file_test {
namespace {

PrefixFile example(int first_block, int blocks) {
  PrefixFile file;
  file.key = "weights 1234, avx512, bf16";
  file.scope = std::string("tenant\0a", 8);
  file.first_block = first_block;
  file.block_stride = 8192;
  for (int i = 0; i < (first_block + blocks) * kBlockTokens; ++i) file.tokens.push_back(i * 7 - 3);
  for (int i = 0; i < blocks; ++i) file.checksums.push_back(0x9e3779b97f4a7c15u * static_cast<unsigned>(i + 1));
  return file;
}

std::vector<std::byte> bytes_of(PrefixFile& file) {
  const PageBuffer header = encode_header(file).value();
  return {header.data(), header.data() + header.size()};
}

TEST(PrefixFile, AHeaderComesBackAsItWas) {
  for (const auto& [first, blocks] : {std::pair(0, 1), {3, 5}, {900, 32}}) {
    PrefixFile file = example(first, blocks);
    const auto bytes = bytes_of(file);
    EXPECT_EQ(bytes.size() % kFileAlignment, 0u);
    EXPECT_EQ(bytes.size(), header_bytes_for(file));
    EXPECT_EQ(header_length(std::span(bytes).first(kHeaderStart), file.file_bytes()).value(), bytes.size());
    auto back = parse_header(bytes, file.file_bytes());
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->key, file.key);
    EXPECT_EQ(back->scope, file.scope);
    EXPECT_EQ(back->tokens, file.tokens);
    EXPECT_EQ(back->checksums, file.checksums);
    EXPECT_EQ(back->first_block, first);
    EXPECT_EQ(back->header_bytes, bytes.size());
    EXPECT_EQ(back->file_bytes(), bytes.size() + static_cast<unsigned>(blocks) * 8192u);
  }
}

TEST(PrefixFile, EveryFlippedBitOfAHeaderIsNoticed) {
  PrefixFile file = example(2, 3);
  const auto good = bytes_of(file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bytes = good;
    bytes[i] ^= std::byte{1} << (i % 8);
    EXPECT_FALSE(parse_header(bytes, file.file_bytes()).ok()) << "byte " << i;
  }
}

TEST(PrefixFile, AFileOfAnotherLengthIsRefused) {
  PrefixFile file = example(0, 4);
  const auto bytes = bytes_of(file);
  for (std::uint64_t length : {std::uint64_t{0}, std::uint64_t{63}, file.file_bytes() - 1, file.file_bytes() + 1,
                               file.header_bytes, UINT64_MAX}) {
    EXPECT_FALSE(parse_header(bytes, length).ok()) << length;
    EXPECT_FALSE(header_length(bytes, length).ok()) << length;
  }
  for (std::size_t cut : {std::size_t{0}, std::size_t{8}, kHeaderStart - 1, kHeaderStart, bytes.size() - 1})
    EXPECT_FALSE(parse_header(std::span(bytes).first(cut), file.file_bytes()).ok()) << cut;
}

TEST(PrefixFile, NoCountOfAHostileHeaderIsBelieved) {
  std::mt19937_64 rng(testing::seed());
  PrefixFile file = example(1, 2);
  const auto good = bytes_of(file);
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = good;
    const std::size_t at = 8 + 4 * (rng() % 14);
    const std::uint32_t value =
        rng() % 3 == 0 ? UINT32_MAX - static_cast<std::uint32_t>(rng() % 64) : static_cast<std::uint32_t>(rng() % 5000);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    (void)header_length(bytes, file.file_bytes());
    if (bytes != good) {
      EXPECT_FALSE(parse_header(bytes, file.file_bytes()).ok());
    }
  }
}

TEST(PrefixFile, WhatIsBeyondTheLimitsIsNotWritten) {
  PrefixFile file = example(0, 1);
  file.scope.assign(PrefixFileLimits::text, 'x');
  EXPECT_TRUE(encode_header(file).ok());
  file.scope += 'x';
  EXPECT_FALSE(encode_header(file).ok());
  file = example(0, 1);
  file.tokens.pop_back();
  EXPECT_FALSE(encode_header(file).ok());
  file = example(0, 1);
  file.block_stride = 100;
  EXPECT_FALSE(encode_header(file).ok());
}

}  // namespace
}  // namespace espalier::prefix_file_test
