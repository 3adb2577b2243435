#include "quantize/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "testing/temp_folder.h"

namespace espalier::quantizer::output_test {
namespace {

using ::testing::HasSubstr;

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

struct Fixture {
  espalier::testing::TempFolder folder;
  OutputPlan plan(std::string fingerprint = "one", bool overwrite = false) const {
    OutputPlan plan;
    plan.path = folder.path() / "out";
    plan.overwrite = overwrite;
    plan.files = {{"", "HEAD", 12}};
    plan.pieces = {{{0, 4, 4}}, {{0, 8, 2}, {0, 10, 2}}};
    plan.fingerprint = std::move(fingerprint);
    return plan;
  }
};

Result<> write_first(const Output& out) {
  return out.write({0, 4, 4}, 0, bytes("abcd"));
}
Result<> write_second(const Output& out) {
  ESP_CHECK(out.write({0, 10, 2}, 0, bytes("gh")));
  return out.write({0, 8, 2}, 0, bytes("ef"));
}

TEST(Output, PiecesInAnyOrderMakeTheFile) {
  const Fixture f;
  auto out = Output::open(f.plan());
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_TRUE(write_second(*out).ok());
  ASSERT_TRUE(out->finish_piece(1).ok());
  EXPECT_FALSE(std::filesystem::exists(f.folder.path() / "out"));
  ASSERT_TRUE(write_first(*out).ok());
  ASSERT_TRUE(out->finish_piece(0).ok());
  ASSERT_TRUE(out->publish().ok());
  EXPECT_EQ(content(f.folder.path() / "out"), "HEADabcdefgh");
  EXPECT_FALSE(std::filesystem::exists(f.folder.path() / "out.partial"));
  EXPECT_FALSE(std::filesystem::exists(f.folder.path() / "out.partial.journal"));
}

TEST(Output, WhatAnEarlierRunFinishedIsThere) {
  const Fixture f;
  {
    auto out = Output::open(f.plan());
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
    ASSERT_TRUE(out->write({0, 8, 2}, 0, bytes("xx")).ok());  // of a piece that is not finished
  }
  auto out = Output::open(f.plan());
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->found(), 1);
  EXPECT_TRUE(out->has(0));
  EXPECT_FALSE(out->has(1));
  ASSERT_TRUE(write_second(*out).ok() && out->finish_piece(1).ok() && out->publish().ok());
  EXPECT_EQ(content(f.folder.path() / "out"), "HEADabcdefgh");
}

TEST(Output, BytesThatHaveChangedAreNotTrusted) {
  const Fixture f;
  {
    auto out = Output::open(f.plan());
    ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
    ASSERT_TRUE(write_second(*out).ok() && out->finish_piece(1).ok());
    ASSERT_TRUE(out->write({0, 4, 4}, 1, bytes("?")).ok());
  }
  auto out = Output::open(f.plan());
  EXPECT_FALSE(out->has(0));
  EXPECT_TRUE(out->has(1));
}

TEST(Output, ALineThatWasCutOffDoesNotCount) {
  const Fixture f;
  {
    auto out = Output::open(f.plan());
    ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
  }
  const auto journal = f.folder.path() / "out.partial.journal";
  std::string text = content(journal);
  text.pop_back();
  std::ofstream(journal, std::ios::binary | std::ios::trunc) << text;
  auto out = Output::open(f.plan());
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->found(), 0);
}

TEST(Output, OtherWishesBeginAnew) {
  const Fixture f;
  {
    auto out = Output::open(f.plan("one"));
    ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
  }
  auto out = Output::open(f.plan("two"));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->found(), 0);
}

TEST(Output, TwoRunsDoNotWriteTheSameFile) {
  const Fixture f;
  auto one = Output::open(f.plan());
  ASSERT_TRUE(one.ok());
  auto two = Output::open(f.plan());
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(two.error().message, HasSubstr("another process is writing"));
}

TEST(Output, WhatIsThereIsNotReplacedUnlessWanted) {
  const Fixture f;
  std::ofstream(f.folder.path() / "out") << "mine";
  auto refused = Output::open(f.plan());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("is there already; another name, or --overwrite, would work"));
  auto out = Output::open(f.plan("one", true));
  ASSERT_TRUE(out.ok());
  ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
  ASSERT_TRUE(write_second(*out).ok() && out->finish_piece(1).ok());
  EXPECT_EQ(content(f.folder.path() / "out"), "mine");
  ASSERT_TRUE(out->publish().ok());
  EXPECT_EQ(content(f.folder.path() / "out"), "HEADabcdefgh");
}

TEST(Output, AFolderHasFilesBesideItsPieces) {
  const Fixture f;
  OutputPlan plan = f.plan();
  plan.folder = true;
  plan.files.front().name = "model.safetensors";
  auto out = Output::open(std::move(plan));
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_TRUE(write_first(*out).ok() && out->finish_piece(0).ok());
  ASSERT_TRUE(write_second(*out).ok() && out->finish_piece(1).ok());
  ASSERT_TRUE(out->put_file("below/config.json", "{}").ok());
  ASSERT_TRUE(out->publish().ok());
  EXPECT_EQ(content(f.folder.path() / "out" / "model.safetensors"), "HEADabcdefgh");
  EXPECT_EQ(content(f.folder.path() / "out" / "below" / "config.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(f.folder.path() / "out" / ".journal"));
}

}  // namespace
}  // namespace espalier::quantizer::output_test
