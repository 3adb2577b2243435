// Drawn pictures and films through every processor, against digests of what transformers makes of them
// (tests/image/expected_processors.py).
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/sha256.h"
#include "image/processors/frame_choice.h"
#include "image/processors/processor.h"
#include "testing/data.h"
#include "testing/drawn_picture.h"

namespace espalier::pictures::expected_test {

namespace {

const Json& expected() {
  static const Json json =
      *parse_json(espalier::testing::read_file(espalier::testing::data("pictures/processors.json")));
  return json;
}

std::string digest(const PixelBlock& block) {
  return espalier::Sha256::hex(std::as_bytes(std::span(block.values))).substr(0, 32);
}

ProcessorFiles files_of(const Json& entry) {
  ProcessorFiles files;
  files.preprocessor = entry["preprocessor"];
  files.processor = entry["processor"];
  files.config = {{"model_type", entry["model_type"]}};
  return files;
}

TEST(ExpectedProcessors, PicturesOfManyShapesBecomeTheFloatsOfTheReference) {
  int pictures = 0;
  for (const Json& entry : expected()["processors"]) {
    auto processor = make_processor(files_of(entry));
    ASSERT_TRUE(processor.ok()) << entry["name"] << ": " << processor.error().message;
    for (const Json& wanted : entry["pictures"]) {
      auto block = (*processor)->process(drawn_picture(wanted["width"], wanted["height"]));
      std::string what =
          entry["name"].get<std::string>() + " " + wanted["width"].dump() + " x " + wanted["height"].dump();
      if (wanted.contains("refused")) {
        EXPECT_FALSE(block.ok()) << what << ", which the reference refuses";
        continue;
      }
      ASSERT_TRUE(block.ok()) << what << ": " << block.error().message;
      EXPECT_EQ(block->values.size(), wanted["values"].get<std::size_t>()) << what;
      EXPECT_EQ(digest(*block), wanted["sha256"]) << what;
      ++pictures;
    }
  }
  EXPECT_GT(pictures, 300);
}

TEST(ExpectedProcessors, FilmsBecomeTheFloatsOfTheReference) {
  int films = 0;
  for (const Json& entry : expected()["processors"]) {
    if (!entry.contains("films")) continue;
    for (const Json& wanted : entry["films"]) {
      ProcessorFiles files = files_of(entry);
      files.video_preprocessor = wanted["settings"];
      auto processor = make_processor(files);
      ASSERT_TRUE(processor.ok()) << processor.error().message;
      std::vector<Picture> frames;
      for (std::uint64_t i = 0; i < wanted["frames"]; ++i)
        frames.push_back(drawn_picture(wanted["width"], wanted["height"], i));
      auto block = (*processor)->process_film(frames, {});
      ASSERT_TRUE(block.ok()) << entry["name"] << ": " << block.error().message;
      EXPECT_EQ(block->values.size(), wanted["values"].get<std::size_t>()) << entry["name"] << wanted["width"];
      EXPECT_EQ(digest(*block), wanted["sha256"]) << entry["name"] << " " << wanted["width"];
      ++films;
    }
  }
  EXPECT_GE(films, 15);
}

TEST(FrameChoice, TakesTheFramesThatTheReferenceTakes) {
  ASSERT_FALSE(expected()["choices"].empty());
  for (const Json& wanted : expected()["choices"]) {
    FilmFrames film{wanted["frames"], wanted["per_second"]};
    std::string rule = wanted["rule"];
    Result<std::vector<int>> chosen = rule == "qwen2_vl"   ? choose_qwen2_vl(film, 2, 4, 768, 2)
                                      : rule == "qwen3_vl" ? choose_qwen3_vl(film, 2, 4, 768)
                                      : rule == "glm4v"    ? choose_glm4v(film, 2, 300)
                                      : rule == "glm46v"   ? choose_glm46v(film, 2)
                                      : rule == "smolvlm"  ? choose_smolvlm(film, 1, 64)
                                                           : choose_internvl(film.total, 8);
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(*chosen, wanted["chosen"].get<std::vector<int>>())
        << rule << " " << film.total << " frames at " << film.per_second;
  }
}

}  // namespace

}  // namespace espalier::pictures::expected_test
