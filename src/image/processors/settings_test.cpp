// Files of the old and the new style say the same; impossible ones are refused with their field's name.
#include "image/processors/settings.h"

#include <gtest/gtest.h>

namespace espalier::pictures::settings_test {

namespace {

Picture striped(int width, int height) {
  Picture picture(width, height);
  for (std::size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = static_cast<std::uint8_t>(i * 7);
  return picture;
}

Json clip() {
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"size", {{"shortest_edge", 28}}},
          {"crop_size", {{"height", 28}, {"width", 28}}}};
}

std::vector<float> made_by(const ProcessorFiles& files) {
  auto processor = make_processor(files);
  EXPECT_TRUE(processor.ok()) << (processor.ok() ? "" : processor.error().message);
  if (!processor.ok()) return {};
  auto block = (*processor)->process(striped(50, 40));
  EXPECT_TRUE(block.ok());
  return block.ok() ? block->values : std::vector<float>{};
}

ProcessorFiles old_style(Json preprocessor) {
  ProcessorFiles files;
  files.preprocessor = std::move(preprocessor);
  return files;
}

TEST(ProcessorFiles, OfAllStylesSayTheSame) {
  std::vector<float> values = made_by(old_style(clip()));
  ASSERT_EQ(values.size(), 28U * 28 * 3);
  Json numbers = clip();
  numbers["size"] = 28;
  numbers["crop_size"] = 28;
  numbers["image_processor_type"] = "CLIPImageProcessorFast";
  EXPECT_EQ(made_by(old_style(numbers)), values);
  Json oldest = clip();
  oldest["feature_extractor_type"] = "CLIPImageProcessor";
  oldest.erase("image_processor_type");
  EXPECT_EQ(made_by(old_style(oldest)), values);
  ProcessorFiles nested;
  nested.processor = {{"processor_class", "LlavaProcessor"}, {"image_processor", clip()}};
  EXPECT_EQ(made_by(nested), values);
}

TEST(ProcessorFiles, OfQwenGiveBoundsByEitherName) {
  Json old = {{"image_processor_type", "Qwen2VLImageProcessor"}, {"min_pixels", 3136}, {"max_pixels", 9408}};
  Json recent = {{"image_processor_type", "Qwen2VLImageProcessorFast"},
                 {"size", {{"shortest_edge", 3136}, {"longest_edge", 9408}}}};
  EXPECT_EQ(made_by(old_style(old)), made_by(old_style(recent)));
}

TEST(ProcessorFiles, ThatAreImpossibleAreRefusedByName) {
  auto refused = [](const char* field, const Json& value) {
    Json file = clip();
    file[field] = value;
    auto processor = make_processor(old_style(file));
    EXPECT_FALSE(processor.ok()) << field;
    return processor.ok() ? std::string() : processor.error().field;
  };
  EXPECT_EQ(refused("size", -3), "size");
  EXPECT_EQ(refused("size", "large"), "size");
  EXPECT_EQ(refused("image_std", {0.5, 0, 0.5}), "image_std");
  EXPECT_EQ(refused("image_mean", {0.5, 0.5}), "image_mean");
  EXPECT_EQ(refused("rescale_factor", 0), "rescale_factor");
  EXPECT_EQ(refused("resample", 9), "resample");
  EXPECT_EQ(refused("do_resize", 1), "do_resize");
  EXPECT_EQ(make_processor(old_style({{"image_processor_type", "SomeImageProcessor"}})).error().kind,
            Error::Kind::unsupported);
  EXPECT_EQ(make_processor({}).error().kind, Error::Kind::bad_file);
}

TEST(ProcessorFiles, ThatDifferHaveDifferentFingerprints) {
  auto one = make_processor(old_style(clip())), same = make_processor(old_style(clip()));
  Json changed = clip();
  changed["resample"] = 2;
  auto other = make_processor(old_style(changed));
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  EXPECT_EQ((*one)->fingerprint(), (*same)->fingerprint());
  EXPECT_NE((*one)->fingerprint(), (*other)->fingerprint());
}

TEST(Gemma3, ShowsLongPicturesInParts) {
  Json file = {{"image_processor_type", "Gemma3ImageProcessor"},
               {"size", {{"height", 28}, {"width", 28}}},
               {"do_pan_and_scan", true},
               {"pan_and_scan_min_crop_size", 20},
               {"pan_and_scan_max_num_crops", 4},
               {"pan_and_scan_min_ratio_to_activate", 1.2}};
  auto processor = make_processor(old_style(file));
  ASSERT_TRUE(processor.ok());
  auto wide = (*processor)->process(striped(100, 40)), square = (*processor)->process(striped(40, 40));
  ASSERT_TRUE(wide.ok() && square.ok());
  EXPECT_EQ(square->tiles, 1);
  EXPECT_EQ(wide->tiles, 4);  // 2.5 rounded up to 3 parts, and the whole
  EXPECT_EQ((*processor)->placeholders(*wide).image_tokens(), 4 * 256);
}

TEST(Processors, RefusePicturesThatAreTooNarrow) {
  auto processor = make_processor(old_style({{"image_processor_type", "Qwen2VLImageProcessor"}}));
  ASSERT_TRUE(processor.ok());
  EXPECT_EQ((*processor)->process(striped(1, 201)).error().kind, Error::Kind::bad_request);
  EXPECT_TRUE((*processor)->process(striped(1, 200)).ok());
}

}  // namespace

}  // namespace espalier::pictures::settings_test
