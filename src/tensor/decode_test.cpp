#include "tensor/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "base/json/json_fields.h"
#include "base/sha256.h"
#include "tensor/encode.h"
#include "tensor/file/gguf.h"
#include "testing/data.h"

namespace espalier {
namespace {

// Every tensor of one golden file: type, shape and the digest of its decoded values.
void check_file(const std::filesystem::path& path, const Json& expected) {
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), expected.size());
  for (const auto& [key, facts] : expected.items()) {
    const Tensor* tensor = file->find(key);
    ASSERT_NE(tensor, nullptr) << path << " " << key;
    EXPECT_EQ(name(tensor->dtype), facts["type"].get<std::string>()) << key;
    EXPECT_EQ(Json(tensor->shape), facts["shape"]) << key;
    const auto values = decode(*tensor);
    EXPECT_EQ(Sha256::hex(std::as_bytes(std::span(values))), facts["sha256_f32"].get<std::string>())
        << path.filename() << " " << key << " first " << values[0] << " instead of " << facts["first"][0];
  }
}

TEST(Decode, GoldenFilesOfEveryTypeAreBitExact) {
  int files = 0, absent = 0;
  for (const char* model : {"gguf-llama3", "gguf-smollm2", "gguf-qwen2", "gguf-qwen3", "gguf-gemma2", "gguf-gemma3",
                            "gguf-mixtral", "gguf-qwen3moe"}) {
    const auto folder = testing::golden(std::string("gguf/") + model);
    if (folder.empty()) {
      ++absent;
      continue;
    }
    auto tensors = parse_json(testing::read_file(folder / "tensors.json"));
    ASSERT_TRUE(tensors.ok()) << model;
    for (const auto& [name, expected] : tensors->items()) {
      if (!std::filesystem::exists(folder / name)) {
        ++absent;
        continue;
      }
      check_file(folder / name, expected);
      ++files;
    }
  }
  std::printf("%d files compared, %d files or folders not here\n", files, absent);
  EXPECT_GE(files, 15);
}

// --- encoders ---

std::vector<float> random_values(std::mt19937_64& random, std::size_t count, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (auto& value : values) value = normal(random);
  return values;
}

TEST(Decode, BitsAreThoseOfTheReferenceDecoder) {  // digests made with gguf-py (tools/goldens/decode_digests.py)
  struct Case {
    DType type;
    int scale;  // which byte of a block is made a small number; -1: none
    const char* digest;
  };
  const Case cases[] = {
      {DType::iq1_s, 1, "758eac7d40b9a5b7a2bc26befc3b2b433c88942773dc334cd131bc10c057a490"},
      {DType::iq1_m, 55, "72bda95af169245907bbe4af7f47eaa85641e7ef5acb9f7e7be04b770859ee43"},
      {DType::iq2_xxs, 1, "54d01837621a80f2862a413e162df58a9b96dc8e45df6ee5b8d5937d16d98ced"},
      {DType::iq2_xs, 1, "717248846e795cf5c0484ca9fe121f5c5b9434a3e793041a3d66ad9646ab04de"},
      {DType::iq2_s, 1, "4dc00754d0b8ca6b49f0fdf98f808babe8d02dc023ffa244d65b905ebd930430"},
      {DType::iq3_xxs, 1, "1d08e5ca51a8c485307242f0aa11c7168480863bc8adebc3925cebf3ff671a95"},
      {DType::iq3_s, 1, "728868a3b04e248f3253d2831475d3e2bc712e5aa212b6254b51b865a2b50422"},
      {DType::tq1_0, 53, "d770d7b64db9bc24773fad124b5a6abb8e1a9a82733531343450510b442160f4"},
      {DType::tq2_0, 65, "c4a6e093cfecd102f3c9cdde05b2f0d002e8981fb29ec0c73da3a95861c63f14"},
      {DType::mxfp4, -1, "6a712f945424ae1c4bffc0ce43778955db20d1fe37b5af01a7779ef29f4f1015"},
      {DType::nvfp4, -1, "ada68f38227e022e8d020f4d0029d486f32208f5cef56214924a94372eaf9a69"},
  };
  for (const auto& [type, scale, digest] : cases) {
    const BlockShape shape = block_shape(type);
    constexpr int kBlocks = 400;
    std::vector<std::byte> stored(static_cast<std::size_t>(kBlocks * shape.bytes));
    std::uint32_t state = 12345;
    for (auto& byte : stored) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
    for (int i = 0; scale >= 0 && i < kBlocks; ++i) {
      std::byte& byte = stored[static_cast<std::size_t>(i * shape.bytes) + static_cast<std::size_t>(scale)];
      byte = (byte & std::byte{0x8f}) | std::byte{0x20};
    }
    std::vector<float> values(static_cast<std::size_t>(kBlocks * shape.elements));
    decode_row(type, stored, values);
    EXPECT_EQ(Sha256::hex(std::as_bytes(std::span(values))), digest) << name(type);
  }
}

TEST(Encode, ErrorsStayWithinHalfAStepOfEachBlock) {
  std::mt19937_64 random(testing::seed());
  for (const auto& [type, steps] :
       {std::pair(DType::q8_0, 254.0f), std::pair(DType::q4_0, 8.0f), std::pair(DType::q4_1, 15.0f)}) {
    for (int round = 0; round < 200; ++round) {
      const auto values = random_values(random, 64, std::exp2(static_cast<float>(round % 20) - 8));
      const auto stored = encode(type, values, 64);
      ASSERT_EQ(stored.size(), 64u / 32 * block_shape(type).bytes);
      std::vector<float> back(64);
      decode_row(type, stored, back);
      for (std::size_t block = 0; block < 64; block += 32) {
        float low = 0, high = 0;
        for (std::size_t i = block; i < block + 32; ++i)
          low = std::min(low, values[i]), high = std::max(high, values[i]);
        const float step = std::max(high - low, 2 * std::max(-low, high)) / steps;
        for (std::size_t i = block; i < block + 32; ++i) {
          // Q4_0's last level is missing on one side (a whole step), scales are f16.
          ASSERT_NEAR(back[i], values[i], step * 1.01f + 0.002f * std::max(-low, high) + 1e-6f)
              << name(type) << " " << round;
        }
      }
    }
  }
}

TEST(Encode, PlainTypesRoundTrip) {
  std::mt19937_64 random(testing::seed());
  const auto values = random_values(random, 96, 1);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<float> back(96), again(96);
    decode_row(type, encode(type, values, 96), back);
    decode_row(type, encode(type, back, 96), again);
    EXPECT_EQ(back, again) << name(type);
  }
}

TEST(Encode, WhatIsNotFiniteIsDefinedAndStaysInItsBlock) {
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_1}) {
    for (const float odd : {INFINITY, -INFINITY, std::nanf(""), 3e38f, -3e38f, 1e-45f, 0.0f, -0.0f}) {
      std::vector<float> values(96, 1.0f), back(96);
      for (int i = 32; i < 64; ++i) values[i] = odd;
      decode_row(type, encode(type, values, 96), back);
      for (int i = 0; i < 32; ++i) EXPECT_NEAR(back[i], 1.0f, 0.01f) << name(type) << odd;
      for (int i = 64; i < 96; ++i) EXPECT_NEAR(back[i], 1.0f, 0.01f) << name(type) << odd;
    }
  }
}

TEST(Encode,
     BytesAreThoseOfTheReferenceQuantiser) {  // digests made with gguf-py 0.19.0 (tools/goldens/encode_digests.py)
  std::vector<float> values(4096);
  std::uint32_t state = 12345;
  for (auto& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 21);
  }
  const auto digest = [&](DType type) { return Sha256::hex(encode(type, values, 256)); };
  EXPECT_EQ(digest(DType::q8_0), "fb8627f261dc067e8f1aee4a273007d9470176e8380ae13de1531a31b25b6d49");
  EXPECT_EQ(digest(DType::q4_0), "e8bb44cc253931f94018e01eaa7d666808cce4b35b9fdb6800cce93cdcc47498");
  EXPECT_EQ(digest(DType::q4_1), "b874b456d3c594a51176eb04625f46e52782c27bcfd19939340a5789414e420a");
  EXPECT_EQ(digest(DType::f16), "77f700ae403e51f1843061aa64ff57e3b9d85f64d55de79957e537e277a52ec0");
  EXPECT_EQ(digest(DType::bf16), "73648af8c10cd42b2ce7a9bcfe9a6052ce23af6b0f0552e744b7fb98c550f572");
}

}  // namespace
}  // namespace espalier
