// Pixtral, Mistral 3, LightOnOCR: shrunk until the longer side fits, then up to whole tokens; a break behind each row of
// tokens in the text (LightOnOCR: none).
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// One picture of its own size, as [3, height, width].
class PixtralProcessor : public Processor {
 public:
  explicit PixtralProcessor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  CommonSettings common_;
  ByteTable table_;
  Size most_, step_;
  int token_side_ = 16;  // pixels of a token's side in the text
  bool breaks_ = true;
  std::string break_, end_;
};

PixtralProcessor::PixtralProcessor(Settings& settings) {
  common_ = settings.common(Filter::bicubic, clip_mean, clip_std);
  table_ = ByteTable(common_);
  SizeRule size = settings.size("size", {{}, {}, {}, 1024, {}, {}}, true);
  most_ = size.longest_edge ? Size{*size.longest_edge, *size.longest_edge}
                            : Size{size.height.value_or(1024), size.width.value_or(1024)};
  SizeRule patch = settings.size("patch_size", {16, 16, {}, {}, {}, {}}, true);
  step_ = {patch.height.value_or(16), patch.width.value_or(16)};
  breaks_ = settings.processor_class() != "LightOnOcrProcessor" && !settings.model_type().starts_with("lighton_ocr");
  int merge = settings.of_processor("spatial_merge_size",
                                    settings.of_config("spatial_merge_size", breaks_ ? 1 : 2, 1, 64), 1, 64);
  token_side_ = settings.of_processor(
                    "patch_size", settings.of_config("vision_config.patch_size", breaks_ ? 16 : 14, 1, 1024), 1, 1024) *
                merge;
  if (breaks_) step_ = {token_side_, token_side_};
  placeholder_ = image_token_ = settings.token("image_token", breaks_ ? "[IMG]" : "<|image_pad|>");
  break_ = settings.token("image_break_token", "[IMG_BREAK]");
  end_ = settings.token("image_end_token", "[IMG_END]");
}

Result<PixelBlock> PixtralProcessor::process(const Picture& picture) const {
  Picture view = picture;
  if (common_.resize) {
    double ratio =
        std::max(static_cast<double>(picture.height) / most_.height, static_cast<double>(picture.width) / most_.width);
    Size size = picture.size();
    if (ratio > 1)
      size = {static_cast<int>(std::floor(picture.height / ratio)),
              static_cast<int>(std::floor(picture.width / ratio))};
    if (size.height < 1 || size.width < 1) return impossible_size(picture.size());
    size = {((size.height - 1) / step_.height + 1) * step_.height, ((size.width - 1) / step_.width + 1) * step_.width};
    view = resize(picture, size, common_.filter);
  }
  PixelBlock block = tile_block(std::span(&view, 1), table_);
  block.original = picture.size();
  block.resized = view.size();
  return block;
}

Placeholders PixtralProcessor::placeholders(const PixelBlock& block) const {
  int down = block.resized.height / token_side_, across = block.resized.width / token_side_;
  Placeholders places;
  if (!breaks_) {
    places.add_image_tokens(down * across);
    return places;
  }
  for (int row = 0; row < down; ++row) {
    places.add_image_tokens(across);
    places.add(row + 1 < down ? break_ : end_);
  }
  return places;
}

}  // namespace

MadeProcessor make_pixtral(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<PixtralProcessor>(settings));
}

}  // namespace espalier::pictures
