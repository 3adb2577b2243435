#include "tensor/file/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/json/json.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors_header.h"
#include "tensor/file/touch_everything.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t weights, char fill = '\1') {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(weights, fill);
}

Result<Unit> read(const std::string& bytes) {
  const std::vector<std::byte> file(reinterpret_cast<const std::byte*>(bytes.data()),
                                    reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  auto header = read_safetensors_header(file, "f.safetensors");
  if (!header.ok()) {
    EXPECT_EQ(header.error().kind, Error::Kind::bad_file);
    EXPECT_THAT(header.error().message, ::testing::StartsWith("f.safetensors: "));
    return header.error();
  }
  testing::touch(header->tensors, file);
  return success();
}

std::string refusal(const std::string& header, std::size_t weights) {
  auto result = read(file_of(header, weights));
  return result.ok() ? "accepted" : result.error().message;
}

const char* const kSmall =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("s":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"e":{"dtype":"I64","shape":[0,4],"data_offsets":[26,26]},)"
    R"("b":{"dtype":"F8_E4M3","shape":[5],"data_offsets":[26,31]}}   )";

TEST(Safetensors, ReadsScalarsEmptyAndUnalignedTensors) {
  const std::string bytes = file_of(kSmall, 31);
  auto header = read_safetensors_header(std::as_bytes(std::span(bytes)), "f");
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(header->tensors[1].elements(), 1);
  EXPECT_EQ(header->tensors[2].elements(), 0);
  EXPECT_EQ(header->tensors[3].data.size(), 5u);
  EXPECT_EQ(header->metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
  EXPECT_TRUE(read(bytes).ok());
}

TEST(Safetensors, ValuesOfGoldensAreWhatTheyAre) {
  const auto folder = testing::golden("models/llama3-tied-gqa");
  ASSERT_FALSE(folder.empty());
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Tensor* embedding = file->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (Shape{320, 64}));
  EXPECT_EQ(embedding->dtype, DType::bf16);
  EXPECT_EQ(file->file_of(*embedding), "model.safetensors");
  EXPECT_EQ(file->find("lm_head.weight"), nullptr);
  auto logits = SafetensorsFile::open(folder / "logits.safetensors");
  ASSERT_TRUE(logits.ok());
  EXPECT_EQ(logits->find("p1.logits")->shape, (Shape{7, 320}));
}

TEST(Safetensors, AllGoldensCanBeRead) {
  int files = 0;
  for (const char* group : {"models", "gguf", "quant", "lora", "sampling"}) {
    const auto folder = testing::golden(group);
    if (folder.empty()) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      auto file = SafetensorsFile::open(entry.path());
      ASSERT_TRUE(file.ok()) << entry.path() << ": " << file.error().message;
      ++files;
    }
  }
  std::printf("%d safetensors files read\n", files);
  EXPECT_GE(files, 15);
}

TEST(Safetensors, HeadersAreLimitedAndStrict) {
  EXPECT_THAT(read("1234567").error().message, HasSubstr("7 bytes are too few"));
  const auto length = [](std::uint64_t n, const std::string& rest) {
    return read(std::string(reinterpret_cast<const char*>(&n), 8) + rest).error().message;
  };
  EXPECT_THAT(length(100'000'001, "{}"), HasSubstr("100000001 bytes, more than the limit of 100000000"));
  EXPECT_THAT(length(~0ull, "{}"), HasSubstr("more than the limit"));
  EXPECT_THAT(length(3, "{}"), HasSubstr("3 bytes, but only 2 follow"));
  EXPECT_THAT(length(0, "{}"), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusal(" {}", 0), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusal("{]", 0), HasSubstr("JSON, byte 1"));
  EXPECT_THAT(refusal("{} x", 0), HasSubstr("nothing after"));
  EXPECT_EQ(refusal("{}", 0), "accepted");
  EXPECT_THAT(refusal("{}", 1), HasSubstr("the tensors end at byte 0 of the weights, but the file has 1"));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      HasSubstr("a key that the object does not have yet"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("__metadata__ \"a\" must be a string"));
  EXPECT_THAT(refusal(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ must be an object"));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t weights) {
  return refusal(R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
                 weights);
}

TEST(Safetensors, EachTensorsFieldsAreChecked) {
  EXPECT_EQ(one("\"U8\"", "[4]", "[0,4]", 4), "accepted");
  EXPECT_THAT(one("\"U8\"", "[4]", "[0,5]", 5), HasSubstr("has 4 bytes, but its data_offsets span 5"));
  EXPECT_THAT(one("\"U8\"", "[4]", "[0,5]", 4), HasSubstr("data_offsets[1] must be an integer in 0..4, but is 5"));
  EXPECT_THAT(one("\"U8\"", "[4]", "[4,0]", 4), HasSubstr("data_offsets[1]"));
  EXPECT_THAT(one("\"U8\"", "[4]", "[-1,3]", 4), HasSubstr("data_offsets[0]"));
  EXPECT_THAT(one("\"U8\"", "[4]", "[18446744073709551615,3]", 4), HasSubstr("data_offsets[0]"));
  EXPECT_THAT(one("\"U8\"", "[4]", "[0]", 4), HasSubstr("needs two data_offsets, but has 1"));
  EXPECT_THAT(one("\"U8\"", "[4]", "{}", 4), HasSubstr("data_offsets must be an array"));
  EXPECT_THAT(one("\"U8\"", "[-4]", "[0,4]", 4), HasSubstr("shape must be an integer of at least 0"));
  EXPECT_THAT(one("\"U8\"", "[4.0]", "[0,4]", 4), HasSubstr("shape must be"));
  EXPECT_THAT(one("\"U8\"", "[4294967296,4294967296]", "[0,0]", 0), HasSubstr("has too many bytes"));
  EXPECT_THAT(one("\"U8\"", "[4294967296,4294967296,0]", "[0,0]", 0), HasSubstr("has too many bytes"));
  EXPECT_THAT(one("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0,4]", 4), HasSubstr("9 dimensions, more than 8"));
  EXPECT_THAT(one("\"Q8_0\"", "[32]", "[0,34]", 34), HasSubstr("dtype \"Q8_0\", which cannot be read"));
  EXPECT_THAT(one("\"u8\"", "[4]", "[0,4]", 4), HasSubstr("dtype \"u8\""));
  EXPECT_THAT(one("7", "[4]", "[0,4]", 4), HasSubstr("tensor \"t\": dtype must be a string"));
  EXPECT_THAT(refusal(R"({"t":{}})", 0), HasSubstr("dtype is missing"));
  EXPECT_THAT(refusal(R"({"t":3})", 0), HasSubstr("must be an object with dtype"));
}

TEST(Safetensors, HolesAndOverlapsAreRefused) {
  const auto two = [](const char* a, const char* b, std::size_t weights) {
    return refusal(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                   weights);
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "accepted");
  EXPECT_THAT(two("[0,4]", "[5,9]", 9),
              HasSubstr("tensor \"b\" begins at byte 5 of the weights, but the one before it ends at 4"));
  EXPECT_THAT(two("[0,4]", "[3,7]", 8), HasSubstr("begins at byte 3"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("begins at byte 0"));
  EXPECT_THAT(two("[1,5]", "[5,9]", 9), HasSubstr("begins at byte 1"));
  EXPECT_THAT(two("[0,4]", "[4,8]", 9), HasSubstr("the file has 9"));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = file_of(kSmall, 31);
  for (std::size_t size = 0; size < whole.size(); ++size) ASSERT_FALSE(read(whole.substr(0, size)).ok()) << size;
}

TEST(Safetensors, DamagedFilesNeverCrash) {
  std::mt19937_64 random(testing::seed());
  const std::string whole = file_of(kSmall, 31);
  const std::string letters = "{}[],:\"0123456789-eE.FUBI8 \\u\xff";
  for (std::size_t at = 0; at + 31 < whole.size(); ++at) {
    for (const char value : letters) {
      std::string changed = whole;
      changed[at] = value;
      (void)read(changed);
    }
  }
  int accepted = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string changed = whole;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      const std::size_t at = 8 + random() % (changed.size() - 40);
      if (random() % 2) changed[at] = letters[random() % letters.size()];
      if (random() % 4 == 0) changed.insert(at, 1, letters[random() % letters.size()]);
      if (random() % 4 == 0) changed.erase(at, 1);
    }
    const std::uint64_t length = changed.size() - 8 - 31;
    std::memcpy(changed.data(), &length, 8);
    accepted += read(changed).ok();
  }
  std::printf("%d of 30000 damaged files still made sense\n", accepted);
}

// --- folders ---

std::string shard(const std::vector<std::string>& names) {
  Json header;
  for (std::size_t i = 0; i < names.size(); ++i)
    header[names[i]] = {{"dtype", "U8"}, {"shape", {1}}, {"data_offsets", {i, i + 1}}};
  return file_of(header.dump(), names.size());
}

struct Sharded {
  testing::TempFolder folder;
  explicit Sharded(const std::string& map) {
    folder.write("s-1.safetensors", shard({"a", "b"}));
    folder.write("s-2.safetensors", shard({"c", "b"}));
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":3},"weight_map":)" + map + "}");
  }
  Result<SafetensorsFile> open() const { return SafetensorsFile::open_folder(folder.path()); }
  std::string refusal() const { return open().ok() ? "accepted" : open().error().message; }
};

TEST(Safetensors, AnIndexSaysWhichFileHasWhat) {
  const Sharded model(R"({"a":"s-1.safetensors","b":"s-2.safetensors","c":"s-2.safetensors"})");
  auto file = model.open();
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->file_of(*file->find("b")), "s-2.safetensors");
  EXPECT_EQ(file->file_of(*file->find("a")), "s-1.safetensors");
}

TEST(Safetensors, AnIndexThatLiesIsRefused) {
  EXPECT_THAT(Sharded(R"({"a":"s-1.safetensors","z":"s-2.safetensors"})").refusal(),
              HasSubstr("tensor \"z\" is not in s-2.safetensors"));
  EXPECT_THAT(Sharded(R"({"a":"s-3.safetensors"})").refusal(), HasSubstr("s-3.safetensors"));
  EXPECT_EQ(Sharded(R"({"a":"s-3.safetensors"})").open().error().kind, Error::Kind::not_found);
  EXPECT_THAT(Sharded(R"({"a":"../s-1.safetensors"})").refusal(), HasSubstr("a plain file name is needed"));
  EXPECT_THAT(Sharded(R"({"a":"/etc/passwd"})").refusal(), HasSubstr("a plain file name is needed"));
  EXPECT_THAT(Sharded(R"({"a":7})").refusal(), HasSubstr("into integer"));
  EXPECT_THAT(Sharded("{}").refusal(), HasSubstr("weight_map is empty"));
  EXPECT_THAT(Sharded("[]").refusal(), HasSubstr("weight_map must be an object"));
  EXPECT_THAT(Sharded(R"({"a":"s-1.safetensors","a":"s-2.safetensors"})").refusal(), HasSubstr("does not have yet"));
}

TEST(Safetensors, ASingleFileComesFirstAndAnEmptyFolderIsExplained) {
  testing::TempFolder folder;
  auto none = SafetensorsFile::open_folder(folder.path());
  EXPECT_EQ(none.error().kind, Error::Kind::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("holds neither model.safetensors nor model.safetensors.index.json"));
  folder.write("model.safetensors.index.json", "nonsense");
  folder.write("model.safetensors", shard({"x"}));
  EXPECT_NE(SafetensorsFile::open_folder(folder.path())->find("x"), nullptr);
}

}  // namespace
}  // namespace espalier
