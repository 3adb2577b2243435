#include "store/hub/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json/json.h"

namespace espalier::store {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Stage = ProgressEvent::Stage;

struct Shown {
  std::string text;
  double now = 1000;
  std::unique_ptr<Progress> progress;
  explicit Shown(ProgressStyle style, int columns = 100) {
    progress = make_progress(style, {.write = [this](std::string_view piece) { text += piece; },
                                     .now = [this] { return now; },
                                     .columns = columns});
  }
  void download(std::uint64_t done, std::uint64_t total = 100'000'000) {
    progress->on({.stage = Stage::downloading, .model = "m", .file = "m.gguf", .done = done, .total = total});
  }
};

TEST(Progress, TheBarShowsShareSizeRateAndTimeLeft) {
  Shown shown(ProgressStyle::bar);
  shown.download(0);
  shown.now += 1;
  shown.download(10'000'000);
  shown.now += 1;
  shown.text.clear();
  shown.download(20'000'000);
  EXPECT_EQ(shown.text, "\rm  20% [====                ] 20.0 MB of 100.0 MB  10.0 MB/s  0:08 left\x1b[K");
  shown.progress->on({.stage = Stage::ready, .model = "m"});
  EXPECT_THAT(shown.text, EndsWith("m: ready\x1b[K\n"));
}

TEST(Progress, WhatWasThereBeforeCountsForTheShareButNotForTheRate) {
  Shown shown(ProgressStyle::bar);
  shown.download(90'000'000);
  shown.now += 2;
  shown.text.clear();
  shown.download(92'000'000);
  EXPECT_THAT(shown.text, HasSubstr(" 92% "));
  EXPECT_THAT(shown.text, HasSubstr("1.0 MB/s  0:08 left"));
}

TEST(Progress, TheBarIsDrawnAtMostTenTimesASecondAndFitsTheTerminal) {
  Shown shown(ProgressStyle::bar, 40);
  for (int i = 0; i < 1000; ++i) {
    shown.now += 0.001;
    shown.download(static_cast<std::uint64_t>(i) * 1000);
  }
  EXPECT_LE(std::count(shown.text.begin(), shown.text.end(), '\r'), 12);
  std::size_t at = 0;
  while ((at = shown.text.find('\r', at)) != std::string::npos) {
    EXPECT_LE(shown.text.find('\x1b', at) - at - 1, 39u);
    ++at;
  }
}

TEST(Progress, ABrokenOffBarEndsItsLineSoThatTheErrorIsReadable) {
  Shown shown(ProgressStyle::bar);
  shown.download(5);
  shown.progress.reset();
  EXPECT_THAT(shown.text, EndsWith("\n"));
}

TEST(Progress, HostileNamesMoveNoCursor) {
  Shown shown(ProgressStyle::bar);
  shown.progress->on({.stage = Stage::verifying, .model = "a\x1b[2J", .file = "b\nc"});
  EXPECT_THAT(shown.text, HasSubstr("a?[2J: checking b?c"));
}

TEST(Progress, PlainSaysALineEveryTenth) {
  Shown shown(ProgressStyle::plain);
  for (std::uint64_t done = 0; done <= 100'000'000; done += 100'000) shown.download(done);
  shown.progress->on({.stage = Stage::ready, .model = "m"});
  EXPECT_EQ(std::count(shown.text.begin(), shown.text.end(), '\n'), 12);
  EXPECT_THAT(shown.text, HasSubstr("m: 50% of 100.0 MB\n"));
  EXPECT_THAT(shown.text, Not(HasSubstr("\x1b")));
}

TEST(Progress, JsonIsOneObjectALineForPrograms) {
  Shown shown(ProgressStyle::json);
  shown.progress->on({.stage = Stage::resolving, .model = "m\"\xff"});
  shown.download(0);
  shown.now += 1;
  shown.download(25'000'000);
  shown.download(26'000'000);  // too soon
  shown.now += 1;
  shown.download(100'000'000);
  shown.progress->on({.stage = Stage::ready, .model = "m"});
  std::vector<Json> lines;
  for (std::size_t at = 0, end; (end = shown.text.find('\n', at)) != std::string::npos; at = end + 1) {
    auto line = parse_json(shown.text.substr(at, end - at));
    ASSERT_TRUE(line.ok()) << shown.text;
    lines.push_back(*line);
  }
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["event"], "resolving");
  EXPECT_EQ(lines[2]["bytes"], 25'000'000);
  EXPECT_EQ(lines[2]["total"], 100'000'000);
  EXPECT_EQ(lines[2]["rate"], 25'000'000);
  EXPECT_EQ(lines[2]["eta_s"], 3);
  EXPECT_EQ(lines[3]["bytes"], 100'000'000);
  EXPECT_EQ(lines[4]["event"], "ready");
}

TEST(Progress, AnUnknownTotalShowsOnlyWhatIsKnown) {
  Shown shown(ProgressStyle::bar);
  shown.download(1500, 0);
  EXPECT_EQ(shown.text, "\rm 1.5 kB\x1b[K");
}

TEST(Progress, StylesHaveNames) {
  EXPECT_EQ(*progress_style("json"), ProgressStyle::json);
  auto wrong = progress_style("xml");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().field, "progress");
}

TEST(Progress, BytesAreReadable) {
  EXPECT_EQ(readable_bytes(999), "999 B");
  EXPECT_EQ(readable_bytes(1000), "1.0 kB");
  EXPECT_EQ(readable_bytes(999'949), "999.9 kB");
  EXPECT_EQ(readable_bytes(999'950), "1.0 MB");
  EXPECT_EQ(readable_bytes(92'871'040), "92.9 MB");
}

}  // namespace
}  // namespace espalier::store
