// Gemma 4: as large as a budget of patches allows, sides in multiples of 3 patches; patches in rows of the grid, colours last.
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// Patches of one picture; each 3 x 3 of them become a token.
class Gemma4Processor : public Processor {
 public:
  explicit Gemma4Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  Result<Size> fit(Size picture) const;

  CommonSettings common_;
  ByteTable table_;
  PatchForm form_;
  int pooled_ = 3, most_tokens_ = 280;
  std::string start_, end_;
};

Gemma4Processor::Gemma4Processor(Settings& settings) {
  common_ = settings.common(Filter::bicubic, {0, 0, 0}, {1, 1, 1});
  common_.normalize = settings.boolean("do_normalize", false);
  table_ = ByteTable(common_);
  form_ = {.side = settings.integer("patch_size", 16, 1, 1024), .merge = 1, .colour_last = true};
  pooled_ = settings.integer("pooling_kernel_size", 3, 1, 64);
  most_tokens_ = settings.integer("max_soft_tokens", 280);
  start_ = settings.token("boi_token", "<|image>");
  end_ = settings.token("eoi_token", "<image|>");
  placeholder_ = image_token_ = settings.token("image_token", "<|image|>");
}

Result<Size> Gemma4Processor::fit(Size picture) const {
  double budget = static_cast<double>(most_tokens_) * pooled_ * pooled_ * form_.side * form_.side;
  double factor = std::sqrt(budget / (static_cast<double>(picture.height) * picture.width));
  int step = pooled_ * form_.side;
  int height = static_cast<int>(std::floor(factor * picture.height / step)) * step,
      width = static_cast<int>(std::floor(factor * picture.width / step)) * step;
  if (height == 0 && width == 0) return impossible_size(picture);
  int longest = most_tokens_ * step;
  if (height == 0) {
    height = step;
    width = std::min(picture.width / picture.height * step, longest);
  } else if (width == 0) {
    width = step;
    height = std::min(picture.height / picture.width * step, longest);
  }
  if (static_cast<double>(height) * width > budget || height == 0 || width == 0) return impossible_size(picture);
  return Size{height, width};
}

Result<PixelBlock> Gemma4Processor::process(const Picture& picture) const {
  Picture view = picture;
  if (common_.resize) {
    ESP_TRY(Size size, fit(picture.size()));
    view = resize(picture, size, common_.filter);
  }
  PixelBlock block;
  append_patches(view, table_, form_, block.values);
  block.original = picture.size();
  block.resized = view.size();
  block.grid = {1, view.height / form_.side, view.width / form_.side};
  block.shape = {static_cast<std::int64_t>(block.grid.height) * block.grid.width,
                 static_cast<std::int64_t>(3) * form_.side * form_.side};
  return block;
}

Placeholders Gemma4Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  places.add(start_);
  places.add_image_tokens(block.grid.height * block.grid.width / (pooled_ * pooled_));
  places.add(end_);
  return places;
}

}  // namespace

MadeProcessor make_gemma4(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Gemma4Processor>(settings));
}

}  // namespace espalier::pictures
