#include "tensor/file/gguf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tensor/decode.h"
#include "tensor/describe.h"
#include "tensor/file/gguf_writer.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

// One part of a split model with the tensor `name`, whose four values are `value`.
std::string part(int number, int count, const std::string& name, float value, std::int32_t tensors = 3) {
  GgufWriter writer;
  writer.put("split.no", static_cast<std::uint32_t>(number));
  writer.put("split.count", static_cast<std::uint32_t>(count));
  writer.put("split.tensors.count", tensors);
  if (number == 0) writer.put("general.architecture", "llama");
  writer.declare(name, DType::f32, {4});
  const std::vector<float> values(4, value);
  return writer.head() + std::string(reinterpret_cast<const char*>(values.data()), 16);
}

std::string part_name(int number, int count) {
  return fmt::format("m-{:05}-of-{:05}.gguf", number + 1, count);
}

struct SplitModel {
  testing::TempFolder folder;
  SplitModel() {
    for (int i = 0; i < 3; ++i)
      folder.write(part_name(i, 3), part(i, 3, "t" + std::to_string(i), static_cast<float>(i)));
  }
  Result<GgufFile> open() const { return GgufFile::open(folder.path() / part_name(0, 3)); }
  std::string refusal() const {
    auto file = open();
    return file.ok() ? "accepted" : file.error().message;
  }
};

TEST(Gguf, ASplitModelIsOpenedByItsFirstPart) {
  const SplitModel model;
  auto file = model.open();
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = file->find("t" + std::to_string(i));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(decode(*tensor), std::vector<float>(4, static_cast<float>(i)));
    EXPECT_EQ(file->file_of(*tensor), part_name(i, 3));
  }
  EXPECT_EQ(*file->metadata().get_string("general.architecture"), "llama");
  EXPECT_EQ(file->find("t3"), nullptr);
  EXPECT_TRUE(file->intact().ok());
}

TEST(Gguf, OtherPartsAndNamesAreExplained) {
  const SplitModel model;
  EXPECT_THAT(GgufFile::open(model.folder.path() / part_name(1, 3)).error().message,
              HasSubstr("open the first part, m-00001-of-00003.gguf"));
  std::filesystem::copy(model.folder.path() / part_name(0, 3), model.folder.path() / "renamed.gguf");
  EXPECT_THAT(GgufFile::open(model.folder.path() / "renamed.gguf").error().message,
              HasSubstr("must be named *-00001-of-00003.gguf"));
}

TEST(Gguf, PartsThatDoNotBelongTogetherAreRefused) {
  {
    const SplitModel model;
    std::filesystem::remove(model.folder.path() / part_name(2, 3));
    EXPECT_THAT(model.refusal(), HasSubstr("m-00003-of-00003.gguf"));
    EXPECT_EQ(model.open().error().kind, Error::Kind::not_found);
  }
  const std::pair<std::string, const char*> cases[] = {
      {part(1, 3, "t2", 2), "says it is part 2 of 3, but its name says 3 of 3"},
      {part(2, 4, "t2", 2), "part 3 of 4"},
      {part(2, 3, "t0", 2), "m-00003-of-00003.gguf: tensor \"t0\" is already in another file"},
      {part(3, 3, "t2", 2), "split.no must be an integer in 0..2"},
      {"GGUF", "m-00003-of-00003.gguf: the file ends"},
  };
  for (const auto& [bytes, says] : cases) {
    const SplitModel model;
    model.folder.write(part_name(2, 3), bytes);
    EXPECT_THAT(model.refusal(), HasSubstr(says));
  }
  const SplitModel model;
  model.folder.write(part_name(0, 3), part(0, 3, "t0", 0, 4));
  EXPECT_THAT(model.refusal(), HasSubstr("split.tensors.count is 4, but the 3 parts hold 3"));
}

TEST(Gguf, PartsMayNotBeLinksToElsewhere) {
  const SplitModel model;
  testing::TempFolder elsewhere;
  std::filesystem::rename(model.folder.path() / part_name(1, 3), elsewhere.path() / "x");
  std::filesystem::create_symlink(elsewhere.path() / "x", model.folder.path() / part_name(1, 3));
  EXPECT_THAT(model.refusal(), HasSubstr("leaves the model's folder"));
}

TEST(Gguf, AFileThatShrinksLaterIsMarkedNotFatal) {
  testing::TempFolder folder;
  GgufWriter writer;
  writer.declare("t", DType::f32, {1 << 16});
  const auto path = folder.write("m.gguf", writer.head() + std::string(std::size_t{4} << 16, '\1'));
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ(decode(*file->find("t")).back(), 0.0f);
  EXPECT_FALSE(file->intact().ok());
}

TEST(Gguf, SurvivesMoving) {
  const SplitModel model;
  GgufFile first = std::move(model.open()).value();
  const GgufFile second = std::move(first);
  EXPECT_NE(second.find("t1"), nullptr);
  EXPECT_EQ(second.metadata().get_string("general.architecture").value(), "llama");
}

TEST(Describe, CountsTypesBytesAndParameters) {
  const auto folder = testing::golden("gguf/gguf-qwen2");
  ASSERT_FALSE(folder.empty());
  auto file = GgufFile::open(folder / "gguf-qwen2-MIX_Q4_K_M.gguf");
  ASSERT_TRUE(file.ok());
  const Contents contents = describe(*file);
  std::uint64_t tensors = 0, bytes = 0;
  for (const auto& use : contents.types) tensors += use.tensors, bytes += use.bytes;
  EXPECT_EQ(tensors, file->tensors().size());
  EXPECT_EQ(contents.tensors.size(), tensors);
  EXPECT_EQ(bytes, contents.bytes());
  EXPECT_LT(bytes, file->file_bytes());
  EXPECT_EQ(contents.types.size(), 3u);  // Q6_K, Q4_K, F32
  EXPECT_GE(contents.types[0].bytes, contents.types[1].bytes);
  EXPECT_NEAR(contents.bits_per_parameter(), 5.5, 1.0);
  EXPECT_EQ(contents.tensors[0].file, "gguf-qwen2-MIX_Q4_K_M.gguf");
}

TEST(Describe, SizesAreShownInTheirLargestUnit) {
  EXPECT_EQ(shown_bytes(0), "0 B");
  EXPECT_EQ(shown_bytes(1023), "1023 B");
  EXPECT_EQ(shown_bytes(1024), "1.00 KiB");
  EXPECT_EQ(shown_bytes(98362432), "93.8 MiB");
  EXPECT_EQ(shown_bytes(UINT64_MAX), "16384 PiB");
  EXPECT_EQ(shown_count(512), "512");
  EXPECT_EQ(shown_count(134'515'008), "134.5 M");
  EXPECT_EQ(shown_count(7'241'732'096), "7.24 B");
}

}  // namespace
}  // namespace espalier
