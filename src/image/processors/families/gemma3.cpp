// Gemma 3: one view of fixed size; with pan and scan, pictures that are long one way are also shown in parts.
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// One view, and parts of it.
class Gemma3Processor : public Processor {
 public:
  explicit Gemma3Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  std::vector<Picture> parts(const Picture& picture) const;
  void add_view(Placeholders& places) const;

  CommonSettings common_;
  ByteTable table_;
  SizeRule size_;
  bool pan_and_scan_ = false;
  int smallest_ = 256, most_ = 4, tokens_ = 256;
  double least_ratio_ = 1.2;
  std::string start_, end_;
};

Gemma3Processor::Gemma3Processor(Settings& settings) {
  common_ = settings.common(Filter::bilinear, half, half);
  table_ = ByteTable(common_);
  size_ = settings.size("size", {224, 224, {}, {}, {}, {}}, true);
  pan_and_scan_ = settings.boolean("do_pan_and_scan", false);
  smallest_ = settings.integer("pan_and_scan_min_crop_size", 256);
  most_ = settings.integer("pan_and_scan_max_num_crops", 4, 1, 256);
  least_ratio_ = settings.number("pan_and_scan_min_ratio_to_activate", 1.2);
  tokens_ = settings.of_processor("image_seq_length", settings.of_config("mm_tokens_per_image", 256, 1));
  start_ = settings.token("boi_token", "<start_of_image>");
  end_ = settings.token("eoi_token", "<end_of_image>");
  image_token_ = settings.token("image_token", "<image_soft_token>");
  placeholder_ = start_;  // prompts carry the mark of the beginning
}

std::vector<Picture> Gemma3Processor::parts(const Picture& picture) const {
  bool wide = picture.width >= picture.height;
  int longer = wide ? picture.width : picture.height, shorter = wide ? picture.height : picture.width;
  if (static_cast<double>(longer) / shorter < least_ratio_) return {};
  int count = static_cast<int>(std::floor(static_cast<double>(longer) / shorter + 0.5));
  count = std::min(std::max(2, std::min(longer / smallest_, count)), most_);
  int part = (longer + count - 1) / count;
  if (std::min(part, shorter) < smallest_) return {};
  std::vector<Picture> cuts;
  for (int at = 0; at < longer; at += part) {
    int length = std::min(part, longer - at);
    cuts.push_back(wide ? crop(picture, at, 0, {picture.height, length})
                        : crop(picture, 0, at, {length, picture.width}));
  }
  return cuts;
}

Result<PixelBlock> Gemma3Processor::process(const Picture& picture) const {
  std::vector<Picture> views;
  if (pan_and_scan_) views = parts(picture);
  views.insert(views.begin(), picture);
  for (Picture& view : views) {
    if (!common_.resize) continue;
    ESP_TRY(Size size, size_by_rule(view.size(), size_));
    view = resize(view, size, common_.filter);
    if (view.size() != views[0].size())
      return bad_file("the picture processor's size must have a height and a width", "size");
  }
  if (!common_.resize && views.size() > 1) views.resize(1);
  PixelBlock block = tile_block(views, table_);
  block.original = picture.size();
  block.resized = views[0].size();
  return block;
}

void Gemma3Processor::add_view(Placeholders& places) const {
  places.add("\n\n" + start_);
  places.add_image_tokens(tokens_);
  places.add(end_ + "\n\n");
}

Placeholders Gemma3Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  if (block.tiles > 1) places.add("Here is the original image ");
  add_view(places);
  if (block.tiles > 1) places.add(" and here are some crops to help you see better ");
  for (int i = 1; i < block.tiles; ++i) {
    if (i > 1) places.add(" ");
    add_view(places);
  }
  return places;
}

}  // namespace

MadeProcessor make_gemma3(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Gemma3Processor>(settings));
}

}  // namespace espalier::pictures
