// Films of every family against what transformers makes of them (tests/data/pictures/films.json, by tools/goldens/make_films.py):
// which frames are taken, the floats, and the text that stands for them.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/sha256.h"
#include "image/processors/processor.h"
#include "testing/data.h"
#include "testing/drawn_picture.h"

namespace espalier::pictures::film_golden_test {

namespace {

const Json& all_films() {
  static const Json json = *parse_json(espalier::testing::read_file(espalier::testing::data("pictures/films.json")));
  return json;
}

// One family.
class FilmGolden : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    entry_ = all_films()[GetParam()];
    ProcessorFiles files;
    files.preprocessor = entry_["preprocessor"];
    files.processor = entry_["processor"];
    files.video_preprocessor = entry_["video_preprocessor"];
    files.tokenizer = entry_["token_names"];
    files.config = entry_["config"];
    auto made = make_processor(files);
    ASSERT_TRUE(made.ok()) << entry_["name"] << ": " << made.error().message;
    processor_ = std::move(made).value();
  }

  static std::vector<Picture> frames_of(const Json& film) {
    std::vector<Picture> frames;
    for (std::uint64_t salt = 0; salt < film["frames"].get<std::uint64_t>(); ++salt)
      frames.push_back(drawn_picture(film["width"], film["height"], salt));
    return frames;
  }
  static std::string digest(const PixelBlock& block) {
    return espalier::Sha256::hex(std::as_bytes(std::span(block.values))).substr(0, 32);
  }

  Json entry_;
  std::unique_ptr<const Processor> processor_;
};

TEST_P(FilmGolden, TakesTheFramesOfTheReference) {
  for (const Json& wanted : entry_["choices"]) {
    const auto chosen = processor_->choose_frames(wanted["frames"], wanted["per_second"]);
    ASSERT_TRUE(chosen.ok()) << chosen.error().message;
    EXPECT_EQ(*chosen, wanted["chosen"].get<std::vector<int>>())
        << entry_["name"] << ": " << wanted["frames"] << " frames at " << wanted["per_second"];
  }
}

TEST_P(FilmGolden, FloatsEqualTheReferenceBitForBit) {
  for (const Json& wanted : entry_["pixels"]) {
    const auto block = processor_->process_film(frames_of(wanted), {});
    const std::string what = entry_["name"].dump() + " " + wanted["width"].dump() + " x " + wanted["height"].dump();
    if (wanted.contains("refused")) {
      EXPECT_FALSE(block.ok()) << what;
      continue;
    }
    ASSERT_TRUE(block.ok()) << what << ": " << block.error().message;
    EXPECT_EQ(block->values.size(), wanted["values"].get<std::size_t>()) << what;
    EXPECT_EQ(digest(*block), wanted["sha256"]) << what;
    EXPECT_GT(block->grid.time, 0) << what;
  }
}

TEST_P(FilmGolden, TextsEqualTheReference) {
  for (const Json& film : entry_["films"]) {
    const std::vector<Picture> all = frames_of(film);
    FilmTimes times;
    times.told = film.contains("fps");
    const double per_second = film.value("fps", 24.0);
    std::vector<Picture> taken;
    for (const std::size_t frame : film["chosen"]) {
      taken.push_back(all[frame]);
      times.frames.push_back(static_cast<double>(frame) / per_second);
    }
    times.duration = times.told ? static_cast<double>(all.size()) / per_second : times.frames.back();
    times.per_second = static_cast<double>(taken.size()) / static_cast<double>(all.size()) * per_second;
    const auto block = processor_->process_film(taken, times);
    ASSERT_TRUE(block.ok()) << block.error().message;
    EXPECT_EQ(digest(*block), film["sha256"]) << entry_["name"];
    const auto places = processor_->film_placeholders(*block, times);
    ASSERT_TRUE(places.ok()) << places.error().message;
    EXPECT_EQ(places->number_text(0) + places->text(processor_->film_token()), film["stands_for_it"]) << entry_["name"];
  }
}

std::string family_name(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name = all_films()[info.param]["name"];
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, FilmGolden, ::testing::Range(std::size_t{0}, all_films().size()), family_name);

}  // namespace

}  // namespace espalier::pictures::film_golden_test
