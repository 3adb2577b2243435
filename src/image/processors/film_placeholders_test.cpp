// What stands for a film in the text, against what transformers' processors write for the same grid and times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "image/processors/processor.h"

namespace espalier::pictures::film_placeholders_test {

namespace {

std::unique_ptr<const Processor> made(const char* preprocessor, const char* config, const char* tokens) {
  ProcessorFiles files;
  files.preprocessor = parse_json(preprocessor).value();
  files.config = parse_json(config).value();
  files.tokenizer = parse_json(tokens).value();
  auto processor = make_processor(files);
  EXPECT_TRUE(processor.ok()) << (processor.ok() ? "" : processor.error().message);
  return std::move(processor).value();
}

std::string written(const Processor& processor, const PixelBlock& block, const FilmTimes& times, const char* token) {
  const auto places = processor.film_placeholders(block, times);
  EXPECT_TRUE(places.ok());
  return places->text(token);
}

// Three groups of 2 x 3 tokens.
PixelBlock grid_block() {
  PixelBlock block;
  block.grid = {3, 4, 6};
  return block;
}

PixelBlock tiles_block(int tiles) {
  PixelBlock block;
  block.tiles = tiles;
  return block;
}

const FilmTimes five{{0, 0.5, 1, 1.5, 2}, 2.5}, six{{0, 0.5, 1, 1.5, 2, 2.5}, 4.5};

TEST(FilmPlaceholders, Qwen3WritesTheMiddleOfEachGroup) {
  const auto qwen = made(R"({"image_processor_type": "Qwen2VLImageProcessor"})", R"({"model_type": "qwen3_vl"})",
                         R"({"vision_start_token": "S", "vision_end_token": "E", "video_token": "V"})");
  EXPECT_EQ(qwen->film_placeholder(), "V");
  EXPECT_EQ(qwen->film_token(), "V");
  EXPECT_EQ(written(*qwen, grid_block(), five, "V"), "<0.2 seconds>SVVVVVVE<1.2 seconds>SVVVVVVE<2.0 seconds>SVVVVVVE");
  EXPECT_EQ(written(*qwen, grid_block(), six, "V"), "<0.2 seconds>SVVVVVVE<1.2 seconds>SVVVVVVE<2.2 seconds>SVVVVVVE");
}

TEST(FilmPlaceholders, Qwen2WritesNothingButTokens) {
  const auto qwen = made(R"({"image_processor_type": "Qwen2VLImageProcessor"})", R"({"model_type": "qwen2_vl"})", "{}");
  EXPECT_EQ(qwen->film_placeholder(), "<|video_pad|>");
  EXPECT_EQ(written(*qwen, grid_block(), five, "V"), std::string(18, 'V'));
}

TEST(FilmPlaceholders, GlmWritesTheTimeBehindEachGroup) {
  for (const bool newer : {true, false}) {
    const auto glm = made(newer ? R"({"image_processor_type": "Glm46VImageProcessor"})"
                                : R"({"image_processor_type": "Glm4vImageProcessor"})",
                          "{}", R"({"image_token": "I"})");
    const std::string unit = newer ? ".0 seconds" : "";
    EXPECT_EQ(glm->film_placeholder(), "<|video|>");
    EXPECT_EQ(glm->film_token(), "I");
    for (const FilmTimes& times : {five, six})
      EXPECT_EQ(written(*glm, grid_block(), times, "I"), "<|begin_of_image|>IIIIII<|end_of_image|>0" + unit +
                                                             "<|begin_of_image|>IIIIII<|end_of_image|>1" + unit +
                                                             "<|begin_of_image|>IIIIII<|end_of_image|>2" + unit);
  }
}

TEST(FilmPlaceholders, SmolVlmTellsTheFilmInWords) {
  const auto smol = made(R"({"image_processor_type": "SmolVLMImageProcessor", "image_seq_len": 2})",
                         R"({"vision_config": {"image_size": 28, "patch_size": 14}, "scale_factor": 2})",
                         R"({"image_token": "I", "fake_image_token": "F", "global_image_token": "G"})");
  const auto tokens = [](int frame) { return fmt::format("\nFrame from 00:{:02}:FGIF", frame); };
  EXPECT_EQ(smol->film_placeholder(), "<video>");
  EXPECT_EQ(smol->film_token(), "I");
  EXPECT_EQ(written(*smol, tiles_block(5), five, "I"),
            "You are provided the following series of five frames from a 0:00:02 [H:MM:SS] video.\n" + tokens(0) +
                tokens(0) + tokens(1) + tokens(1) + tokens(2) + "\n\n");
  const std::string last = written(*smol, tiles_block(2), {{0, 6500}, 10'000}, "I");
  EXPECT_TRUE(
      last.starts_with("You are provided the following series of two frames from a 2:46:40 [H:MM:SS] video.\n"));
  EXPECT_NE(last.find("\nFrame from 108:20:FGIF\n\n"), std::string::npos) << last;
  const std::pair<int, const char*> words[] = {{1, "one"},
                                               {21, "twenty-one"},
                                               {100, "one hundred"},
                                               {128, "one hundred and twenty-eight"},
                                               {1000, "one thousand"},
                                               {1024, "one thousand and twenty-four"},
                                               {1124, "one thousand, one hundred and twenty-four"}};
  for (const auto& [count, word] : words)
    EXPECT_NE(written(*smol, tiles_block(count), {{}, 1}, "I").find(fmt::format("series of {} frames", word)),
              std::string::npos);
}

TEST(FilmPlaceholders, InternVlNumbersItsFrames) {
  const auto intern =
      made(R"({"image_processor_type": "GotOcr2ImageProcessor", "processor_class": "InternVLProcessor"})",
           R"({"model_type": "internvl", "image_seq_length": 2})",
           R"({"start_image_token": "S", "end_image_token": "E", "context_image_token": "I"})");
  EXPECT_EQ(intern->film_token(), "I");
  EXPECT_EQ(written(*intern, tiles_block(3), five, "I"), "Frame1: SIIE\nFrame2: SIIE\nFrame3: SIIE");
}

TEST(FilmPlaceholders, OtherFamiliesTakeNoFilms) {
  const auto clip = made(R"({"image_processor_type": "CLIPImageProcessor"})", "{}", "{}");
  EXPECT_TRUE(clip->film_placeholder().empty());
  EXPECT_FALSE(clip->film_placeholders({}, {}).ok());
  EXPECT_FALSE(clip->choose_frames(10, 24).ok());
}

}  // namespace

}  // namespace espalier::pictures::film_placeholders_test
