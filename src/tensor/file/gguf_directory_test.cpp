#include "tensor/file/gguf_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tensor/file/gguf_writer.h"
#include "tensor/file/touch_everything.h"
#include "testing/data.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

// The head of a file, value by value, right or wrong.
class Raw {
 public:
  template <class Number>
  Raw& put(Number value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Raw& u32(std::uint32_t value) { return put(value); }
  Raw& u64(std::uint64_t value) { return put(value); }
  Raw& text(std::string_view value) {
    u64(value.size());
    bytes.append(value);
    return *this;
  }
  Raw& head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    bytes += "GGUF";
    return u32(version).u64(tensors).u64(keys);
  }
  Raw& zeros(std::size_t count) {
    bytes.append(count, '\0');
    return *this;
  }
  std::string bytes;
};

// On a heap block of exactly the file's size, so that a sanitizer sees the first byte too many.
Result<Unit> read(const std::string& bytes) {
  const std::vector<std::byte> file(reinterpret_cast<const std::byte*>(bytes.data()),
                                    reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  auto directory = read_gguf_directory(file, "f.gguf");
  if (!directory.ok()) {
    EXPECT_EQ(directory.error().kind, Error::Kind::bad_file);
    EXPECT_THAT(directory.error().message, ::testing::StartsWith("f.gguf: "));
    return directory.error();
  }
  testing::touch(*directory, file);
  return success();
}

std::string refusal(const std::string& bytes) {
  auto result = read(bytes);
  return result.ok() ? "accepted" : result.error().message;
}

std::string small_file(std::uint64_t alignment = 32) {
  GgufWriter writer(alignment);
  writer.put("general.architecture", "llama");
  writer.put("a.u32", 7u);
  writer.put("a.i32", -7);
  writer.put("a.u64", std::uint64_t{1} << 40);
  writer.put("a.f32", 0.5f);
  writer.put("a.bool", true);
  writer.put("a.strings", std::vector<std::string>{"", "x", "two words"});
  writer.put("a.integers", std::vector<std::int32_t>{1, -2, 3});
  writer.put("a.floats", std::vector<float>{0.25f});
  writer.declare("one", DType::f32, {3, 5});
  writer.declare("two", DType::q4_k, {2, 256});
  writer.declare("three", DType::bf16, {7});
  std::string bytes = writer.head();
  for (const std::size_t size : {60u, 288u, 14u}) bytes.append(size + writer.padding(size), '\1');
  return bytes;
}

TEST(GgufDirectory, ReadsWhatWasWritten) {
  for (const std::uint64_t alignment : {8, 32, 64, 4096}) {
    const std::string bytes = small_file(alignment);
    auto made = read_gguf_directory(std::as_bytes(std::span(bytes)), "f.gguf");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->version, 3u);
    EXPECT_EQ(made->alignment, alignment);
    EXPECT_EQ(*made->metadata.get_string("general.architecture"), "llama");
    EXPECT_EQ(*made->metadata.get_integer("a.i32"), -7);
    EXPECT_EQ(*made->metadata.get_integer("a.u64"), std::int64_t{1} << 40);
    EXPECT_EQ(*made->metadata.get_strings("a.strings"), (std::vector<std::string_view>{"", "x", "two words"}));
    EXPECT_EQ(*made->metadata.get_integers("a.integers"), (std::vector<std::int64_t>{1, -2, 3}));
    EXPECT_EQ(*made->metadata.get_floats("a.floats"), std::vector<float>{0.25f});
    ASSERT_EQ(made->tensors.size(), 3u);
    EXPECT_EQ(made->tensors[0].shape, (Shape{3, 5}));
    EXPECT_EQ(made->tensors[1].dtype, DType::q4_k);
    EXPECT_EQ(made->tensors[2].data.size(), 14u);
    EXPECT_EQ(
        static_cast<std::size_t>(made->tensors[2].data.data() - reinterpret_cast<const std::byte*>(bytes.data())) %
            alignment,
        0u);
  }
}

TEST(GgufDirectory, CopiedMetadataIsTheSame) {
  const std::string bytes = small_file();
  auto made = read_gguf_directory(std::as_bytes(std::span(bytes)), "f.gguf");
  GgufWriter writer;
  for (const auto& entry : made->metadata.entries()) writer.copy(entry);
  const std::string head = writer.head();
  auto again = read_gguf_directory(std::as_bytes(std::span(head)), "g.gguf");
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (std::size_t i = 0; i < made->metadata.entries().size(); ++i) {
    EXPECT_EQ(shown(made->metadata.entries()[i]), shown(again->metadata.entries()[i]));
  }
}

TEST(GgufDirectory, GettersNameTheKeyAndWhatIsThere) {
  const std::string bytes = small_file();
  auto made = read_gguf_directory(std::as_bytes(std::span(bytes)), "f.gguf");
  const auto& metadata = made->metadata;
  EXPECT_EQ(metadata.get_integer("b").error().message, "f.gguf: metadata key b is missing");
  EXPECT_EQ(metadata.get_integer("b").error().field, "b");
  EXPECT_EQ(metadata.get_integer("a.u32", {8, 9}).error().message,
            "f.gguf: metadata key a.u32 must be an integer in 8..9, but is u32 7");
  EXPECT_THAT(metadata.get_integer("a.f32").error().message, HasSubstr("but is f32 0.5"));
  EXPECT_THAT(metadata.get_boolean("a.u32").error().message, HasSubstr("must be a bool"));
  EXPECT_THAT(metadata.get_string("a.strings").error().message, HasSubstr("but is an array of string"));
  EXPECT_THAT(metadata.get_integers("a.strings").error().message, HasSubstr("an array of integers"));
  EXPECT_THAT(metadata.get_strings("a.integers").error().message, HasSubstr("but is an array of i32"));
  EXPECT_THAT(metadata.get_floats("a.integers").error().message, HasSubstr("an array of f32 or f64"));
  EXPECT_THAT(metadata.get_floats("a.u32").error().message, HasSubstr("an array"));
  EXPECT_EQ(*metadata.get_number("a.u32"), 7);
  EXPECT_FALSE(metadata.get_number("a.f32", {.low = 0.5, .above_low = true}).ok());
  EXPECT_EQ(*metadata.find_integer("b"), std::nullopt);
  EXPECT_EQ(**metadata.find_string("general.architecture"), "llama");
  EXPECT_FALSE(metadata.find_number("a.bool").ok());
  EXPECT_EQ(shown(*metadata.find("a.integers")), "3 i32: [1, -2, 3]");
}

TEST(GgufDirectory, NotANumberIsNoNumber) {
  Raw raw;
  raw.head(0, 1).text("k").u32(6).put(std::nanf(""));
  auto made = read_gguf_directory(std::as_bytes(std::span(raw.bytes)), "f.gguf");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_FALSE(made->metadata.get_number("k").ok());
}

TEST(GgufDirectory, HeadersThatAreNotOursAreExplained) {
  EXPECT_THAT(refusal(""), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal("GGU"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal("PK\3\4 and more"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal("GGUF"), HasSubstr("ends inside the version"));
  EXPECT_THAT(refusal(Raw().head(0, 0, 1).bytes), HasSubstr("version 1, but only 2 and 3"));
  EXPECT_THAT(refusal(Raw().head(0, 0, 4).bytes), HasSubstr("version 4"));
  EXPECT_THAT(refusal(Raw().head(0, 0, 0x03000000).bytes), HasSubstr("big-endian"));
  EXPECT_EQ(refusal(Raw().head(0, 0, 2).bytes), "accepted");
}

TEST(GgufDirectory, CountsAreComparedWithTheBytesThatFollow) {
  EXPECT_THAT(refusal(Raw().head(~0ull, 0).bytes), HasSubstr("more than the limit of 262144"));
  EXPECT_THAT(refusal(Raw().head(0, ~0ull).bytes), HasSubstr("more than the limit of 65536"));
  EXPECT_THAT(refusal(Raw().head(1000, 0).zeros(100).bytes),
              HasSubstr("tensor_count is 1000, but the 100 bytes that follow hold at most 3"));
  EXPECT_THAT(refusal(Raw().head(0, 1000).zeros(100).bytes), HasSubstr("metadata_kv_count is 1000, but"));
}

TEST(GgufDirectory, MetadataLengthsAndTypesAreChecked) {
  const auto key = [](const std::function<void(Raw&)>& value) {
    Raw raw;
    raw.head(0, 1).text("some.key");
    value(raw);
    return refusal(raw.bytes);
  };
  EXPECT_THAT(refusal(Raw().head(0, 1).u64(~0ull).zeros(40).bytes), HasSubstr("more than the limit of 65535"));
  EXPECT_THAT(refusal(Raw().head(0, 1).u64(60000).zeros(40).bytes), HasSubstr("but only 40 follow"));
  EXPECT_THAT(refusal(Raw().head(0, 1).text("").zeros(40).bytes), HasSubstr("readable text"));
  EXPECT_THAT(refusal(Raw().head(0, 1).text("a\nb").u32(0).zeros(4).bytes), HasSubstr("readable text"));
  EXPECT_THAT(key([](Raw& r) { r.u32(13).zeros(16); }),
              HasSubstr("\"some.key\" has value type 13, but only 0..12 exist"));
  EXPECT_THAT(key([](Raw& r) { r.u32(10).zeros(7); }), HasSubstr("the file ends inside metadata key \"some.key\""));
  EXPECT_THAT(key([](Raw& r) { r.u32(7).put<std::uint8_t>(2); }), HasSubstr("bool of value 2"));
  EXPECT_THAT(key([](Raw& r) { r.u32(8).u64(1ull << 62); }), HasSubstr("more than the limit"));
  EXPECT_THAT(key([](Raw& r) { r.u32(8).u64(9).zeros(8); }), HasSubstr("has 9 bytes, but only 8 follow"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(9).u64(1).u32(0).u64(1).zeros(1); }), HasSubstr("array of arrays"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(99).u64(1).zeros(8); }), HasSubstr("value type 99"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(0).u64(~0ull).zeros(8); }),
              HasSubstr("array of 18446744073709551615 elements"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(10).u64(1ull << 61).zeros(8); }), HasSubstr("holds at most 1"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(8).u64(2).text("a").u64(5).zeros(4); }), HasSubstr("only 4 follow"));
  EXPECT_THAT(key([](Raw& r) { r.u32(9).u32(7).u64(2).put<std::uint8_t>(1).put<std::uint8_t>(3); }),
              HasSubstr("bool of value 3"));
  EXPECT_EQ(key([](Raw& r) { r.u32(9).u32(8).u64(0); }), "accepted");
  EXPECT_THAT(refusal(Raw().head(0, 2).text("k").u32(0).zeros(1).text("k").u32(0).zeros(1).bytes),
              HasSubstr("\"k\" occurs twice"));
}

TEST(GgufDirectory, AlignmentIsAPowerOfTwoInRange) {
  const auto aligned = [](std::uint32_t value) {
    return refusal(Raw().head(0, 1).text("general.alignment").u32(4).u32(value).bytes);
  };
  EXPECT_EQ(aligned(8), "accepted");
  EXPECT_EQ(aligned(65536), "accepted");
  for (const std::uint32_t bad : {0u, 1u, 4u, 131072u, 0x80000000u, ~0u})
    EXPECT_THAT(aligned(bad), HasSubstr("8..65536")) << bad;
  for (const std::uint32_t bad : {9u, 33u, 48u, 65535u}) EXPECT_THAT(aligned(bad), HasSubstr("power of two")) << bad;
  EXPECT_THAT(refusal(Raw().head(0, 1).text("general.alignment").u32(8).text("32").bytes),
              HasSubstr("general.alignment must be an integer"));
}

struct TensorCase {
  std::vector<std::uint64_t> dimensions = {32};
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::string name = "t";
};

std::string refusal(const std::vector<TensorCase>& tensors, std::size_t weights) {
  Raw raw;
  raw.head(tensors.size(), 0);
  for (const auto& t : tensors) {
    raw.text(t.name).u32(static_cast<std::uint32_t>(t.dimensions.size()));
    for (const auto d : t.dimensions) raw.u64(d);
    raw.u32(t.type).u64(t.offset);
  }
  raw.zeros((32 - raw.bytes.size() % 32) % 32 + weights);
  return refusal(raw.bytes);
}

TEST(GgufDirectory, ShapesAndTypesAreChecked) {
  EXPECT_EQ(refusal({{}}, 128), "accepted");
  EXPECT_THAT(refusal({{.name = ""}}, 128), HasSubstr("readable name"));
  EXPECT_THAT(refusal({{.name = std::string(256, 'n')}}, 128), HasSubstr("limit of 255"));
  EXPECT_THAT(refusal({{.dimensions = {}}}, 128), HasSubstr("0 dimensions"));
  EXPECT_THAT(refusal({{.dimensions = {2, 2, 2, 2, 2}}}, 128), HasSubstr("5 dimensions"));
  EXPECT_THAT(refusal({{.dimensions = {0}}}, 128), HasSubstr("a dimension of 0"));
  EXPECT_THAT(refusal({{.dimensions = {1ull << 63}}}, 128), HasSubstr("a dimension of 9223372036854775808"));
  EXPECT_THAT(refusal({{.dimensions = {1ull << 32, 1ull << 32}}}, 128), HasSubstr("too large"));
  EXPECT_THAT(refusal({{.dimensions = {1ull << 60}}}, 128), HasSubstr("ends at byte 4611686018427387904"));
  EXPECT_THAT(refusal({{.dimensions = {33}, .type = 8}}, 128), HasSubstr("not a whole number of Q8_0 blocks of 32"));
  EXPECT_THAT(refusal({{.dimensions = {128}, .type = 12}}, 128), HasSubstr("Q4_K blocks of 256"));
  EXPECT_THAT(refusal({{.type = 4}}, 128), HasSubstr("unknown type 4; readable are F32, F16, Q4_0"));
  EXPECT_THAT(refusal({{.type = 0xffffffff}}, 128), HasSubstr("unknown type 4294967295"));
  EXPECT_THAT(refusal({{.type = 9}}, 128), HasSubstr("type Q8_1, which cannot be read"));
}

TEST(GgufDirectory, RangesLieApartAndInsideTheFile) {
  EXPECT_THAT(refusal({{.offset = 16}}, 256), HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(refusal({{.offset = 32}}, 128),
              HasSubstr("ends at byte 160 of the weights, but the file holds only 128"));
  EXPECT_THAT(refusal({{.offset = ~0ull - 31}}, 128), HasSubstr("beyond any file"));
  EXPECT_THAT(refusal({{}}, 127), HasSubstr("holds only 127"));
  EXPECT_THAT(refusal({{}, {.name = "t"}}, 256), HasSubstr("tensor \"t\" occurs twice"));
  EXPECT_THAT(refusal({{}, {.offset = 0, .name = "u"}}, 256), HasSubstr("overlaps"));
  EXPECT_THAT(refusal({{.offset = 128}, {.offset = 96, .name = "u"}}, 512),
              HasSubstr("tensor \"t\" at offset 128 overlaps the one before it, which ends at 224"));
  EXPECT_EQ(refusal({{.offset = 256}, {.offset = 0, .name = "u"}}, 384), "accepted");  // any order, holes between
}

// --- systematic damage ---

TEST(GgufDirectory, EveryTruncationIsRefusedOrLeavesAllTensorsWhole) {
  const std::string whole = small_file();
  ASSERT_TRUE(read(whole).ok());
  const std::size_t needed = whole.size() - 18;  // padding after the last tensor may go
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(read(whole.substr(0, size)).ok(), size >= needed) << size;
  }
}

TEST(GgufDirectory, AnyChangedByteOrWordNeverCrashes) {
  const std::string whole = small_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 1, 2, 7, 0x7f, 0x80, 0xfe, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      (void)read(changed);
    }
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32,
          std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 31, std::uint64_t{whole.size()}}) {
      std::string changed = whole;
      std::memcpy(changed.data() + at, &value, std::min<std::size_t>(8, whole.size() - at));
      (void)read(changed);
    }
  }
}

TEST(GgufDirectory, RandomDamageNeverCrashes) {
  std::mt19937_64 random(testing::seed());
  const std::string whole = small_file();
  const std::size_t head = whole.size() - 400;
  int accepted = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string changed = whole;
    for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
      switch (random() % 4) {
        case 0:
          changed[random() % head] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(random() % head, 1 + random() % 9);
          break;
        case 2:
          changed.insert(random() % head, changed.substr(random() % head, random() % 40));
          break;
        default:
          changed[random() % head] ^= static_cast<char>(1u << (random() % 8));
          break;
      }
    }
    accepted += read(changed).ok();
  }
  std::printf("%d of 30000 damaged files still made sense\n", accepted);
}

}  // namespace
}  // namespace espalier
