// CLIP, SigLIP, LLaVA: one view of fixed size: resized (LLaVA's own class: after black-free squaring), and the middle cut out.
#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// One tile for each picture.
class ClipProcessor : public Processor {
 public:
  ClipProcessor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    int tokens = patch_ == 0 ? 0 : static_cast<int>(block.shape[2] / patch_ * (block.shape[3] / patch_));
    places.add_image_tokens(tokens + extra_);
    return places;
  }

 private:
  CommonSettings common_;
  ByteTable table_;
  SizeRule size_, crop_;
  bool square_ = false, center_crop_ = false;
  int patch_ = 14, extra_ = 0;
};

ClipProcessor::ClipProcessor(Settings& settings) {
  bool siglip = settings.type() == "SiglipImageProcessor";
  common_ = settings.common(Filter::bicubic, siglip ? half : clip_mean, siglip ? half : clip_std);
  table_ = ByteTable(common_);
  SizeRule fixed{224, 224, {}, {}, {}, {}}, shortest{{}, {}, 224, {}, {}, {}};
  size_ = settings.size("size", siglip ? fixed : shortest, false);
  crop_ = settings.size("crop_size", fixed, true);
  center_crop_ = settings.boolean("do_center_crop", !siglip);
  square_ = settings.type() == "LlavaImageProcessor" && settings.boolean("do_pad", false);
  patch_ = settings.of_processor("patch_size", settings.of_config("vision_config.patch_size", 14, 1), 1, 1024);
  extra_ = extra_tokens(settings);
  placeholder_ = image_token_ = settings.token("image_token", "<image>");
}

Result<PixelBlock> ClipProcessor::process(const Picture& picture) const {
  Picture view = picture;
  if (square_) {
    std::array<std::uint8_t, 3> colour{};
    for (std::size_t c = 0; c < 3; ++c) colour[c] = static_cast<std::uint8_t>(common_.mean[c] * 255);
    view = squared(view, colour);
  }
  if (common_.resize) {
    ESP_TRY(Size size, size_by_rule(view.size(), size_));
    view = resize(view, size, common_.filter);
  }
  if (center_crop_) {
    if (!crop_.height || !crop_.width)
      return bad_file("the picture processor's crop_size must have a height and a width", "crop_size");
    view = center_crop(view, {*crop_.height, *crop_.width});
  }
  PixelBlock block = tile_block(std::span(&view, 1), table_);
  block.original = picture.size();
  block.resized = view.size();
  return block;
}

}  // namespace

int extra_tokens(Settings& settings) {
  bool has_class = settings.text_of_config("vision_config.model_type", "clip_vision_model") == "clip_vision_model";
  bool drops_first = settings.text_of_config("vision_feature_select_strategy", "default") == "default";
  return (has_class ? 1 : 0) - (drops_first ? 1 : 0);
}

MadeProcessor make_clip(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<ClipProcessor>(settings));
}

}  // namespace espalier::pictures
