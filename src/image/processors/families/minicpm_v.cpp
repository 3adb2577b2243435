// MiniCPM-V 4.6: the whole picture at about one tile's area, and, when it is larger, slices of it in a grid.
//
// The reference writes patches side by side, [3, side, patches x side]; here each is a row, [patches, 3, side, side].
#include <algorithm>
#include <limits>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

int nearest_multiple(double length, int divisor) {
  return std::max(rounded(length / divisor) * divisor, divisor);
}

// Slices of patches, of different sizes.
class MiniCpmProcessor : public Processor {
 public:
  explicit MiniCpmProcessor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  Size view_size(double height, double width, bool enlarge) const;
  Size slice_grid(Size picture) const;  // 0 x 0: none

  CommonSettings common_;
  ByteTable table_;
  PatchForm form_;
  int most_slices_ = 9, side_ = 448, merge_ = 4;
  bool slices_ = true;
  std::string start_, end_, slice_start_, slice_end_;
};

MiniCpmProcessor::MiniCpmProcessor(Settings& settings) {
  common_ = settings.common(Filter::bicubic, half, half);
  table_ = ByteTable(common_);
  form_.side = settings.integer("patch_size", 14, 1, 1024);
  most_slices_ = settings.integer("max_slice_nums", 9, 1, 256);
  side_ = settings.integer("scale_resolution", 448);
  slices_ = settings.boolean("slice_mode", true);
  merge_ = settings.text("downsample_mode", "16x") == "4x" ? 2 : 4;
  start_ = settings.token("image_start_token", "<image>");
  end_ = settings.token("image_end_token", "</image>");
  slice_start_ = settings.token("slice_start_token", "<slice>");
  slice_end_ = settings.token("slice_end_token", "</slice>");
  placeholder_ = image_token_ = settings.token("image_token", "<|image_pad|>");
}

Size MiniCpmProcessor::view_size(double height, double width, bool enlarge) const {
  if (height * width > static_cast<double>(side_) * side_ || enlarge) {
    double ratio = width / height;
    height = std::trunc(side_ / std::sqrt(ratio));
    width = std::trunc(height * ratio);
  }
  return {nearest_multiple(height, form_.side * merge_), nearest_multiple(width, form_.side * merge_)};
}

Size MiniCpmProcessor::slice_grid(Size picture) const {
  double area = static_cast<double>(static_cast<std::int64_t>(picture.width) * picture.height);
  int wanted = static_cast<int>(std::min<double>(std::ceil(area / (static_cast<double>(side_) * side_)), most_slices_));
  if (!slices_ || wanted <= 1) return {};
  double ratio = std::log(static_cast<double>(picture.width) / picture.height),
         least = std::numeric_limits<double>::infinity();
  Size best{1, 1};
  for (int slices : {wanted - 1, wanted, wanted + 1}) {
    if (slices == 1 || slices > most_slices_) continue;
    for (int rows = 1; rows <= slices; ++rows) {
      if (slices % rows != 0) continue;
      double error = std::fabs(ratio - std::log(static_cast<double>(slices / rows) / rows));
      if (error < least || (error == least && rows > best.height)) {
        best = {rows, slices / rows};
        least = error;
      }
    }
  }
  return best;
}

Result<PixelBlock> MiniCpmProcessor::process(const Picture& picture) const {
  if (!common_.resize) return bad_file("this picture processor always resizes: do_resize must be true", "do_resize");
  Size grid = slice_grid(picture.size());
  Size whole = view_size(picture.height, picture.width, grid == Size{});
  if (std::max(whole.height, whole.width) > 1 << 16) return impossible_size(picture.size());
  std::vector<Picture> views = {resize(picture, whole, common_.filter)};
  if (grid != Size{}) {
    Size slice = view_size(static_cast<double>(nearest_multiple(picture.height, grid.height)) / grid.height,
                           static_cast<double>(nearest_multiple(picture.width, grid.width)) / grid.width, true);
    if (std::max(slice.height, slice.width) > 1 << 14) return impossible_size(picture.size());
    for (Picture& part :
         cut(resize(picture, {slice.height * grid.height, slice.width * grid.width}, common_.filter), slice))
      views.push_back(std::move(part));
  }
  PixelBlock block = tile_block(views, table_, form_, grid);
  block.original = picture.size();
  block.resized = whole;
  return block;
}

Placeholders MiniCpmProcessor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  for (int i = 0; i < block.tiles; ++i) {
    if (i > 1 && (i - 1) % block.columns == 0) places.add("\n");
    places.add(i == 0 ? start_ : slice_start_);
    places.add_image_tokens(block.tile_grids[static_cast<std::size_t>(i)].height *
                            block.tile_grids[static_cast<std::size_t>(i)].width / (merge_ * merge_));
    places.add(i == 0 ? end_ : slice_end_);
  }
  return places;
}

}  // namespace

MadeProcessor make_minicpm_v(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<MiniCpmProcessor>(settings));
}

}  // namespace espalier::pictures
