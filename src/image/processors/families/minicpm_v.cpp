// MiniCPM-V 4.6: the whole picture at about one tile's area, and, when it is larger, slices of it in a grid.
//
// The reference writes patches side by side, [3, side, patches x side]; here each is a row, [patches, 3, side, side].
#include <algorithm>
#include <array>
#include <limits>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

int nearest_multiple(double length, int divisor) {
  return std::max(rounded(length / divisor) * divisor, divisor);
}

// How pictures, or the frames of films, are sliced.
class SlicePlan {
 public:
  SlicePlan(Settings& settings, Arithmetic arithmetic)
      : common_(settings.common(Filter::bicubic, half, half, arithmetic)), table_(common_) {
    form_.side = settings.integer("patch_size", 14, 1, 1024);
    most_slices_ = settings.integer("max_slice_nums", 9, 1, 256);
    side_ = settings.integer("scale_resolution", 448);
    slices_ = settings.boolean("slice_mode", true);
    merge_ = settings.text("downsample_mode", "16x") == "4x" ? 2 : 4;
  }
  // The whole and its slices, picture by picture; all of one size.
  Result<PixelBlock> block_of(std::span<const Picture> pictures) const;
  int tokens_of_view(const PixelBlock& block, int view) const {
    const Size grid = block.tile_grids[static_cast<std::size_t>(view)];
    return grid.height * grid.width / (merge_ * merge_);
  }

 private:
  Size view_size(double height, double width, bool enlarge) const;
  Size slice_grid(Size picture) const;  // 0 x 0: none
  Result<> add_views(const Picture& picture, std::vector<Picture>& views) const;

  CommonSettings common_;
  ByteTable table_;
  PatchForm form_;
  int most_slices_ = 9, side_ = 448, merge_ = 4;
  bool slices_ = true;
};

// Slices of patches, of different sizes; films are frame for frame as pictures.
class MiniCpmProcessor : public Processor {
 public:
  explicit MiniCpmProcessor(Settings& settings) : MiniCpmProcessor(settings, settings.video()) {}
  Result<PixelBlock> process(const Picture& picture) const override {
    return pictures_.block_of(std::span(&picture, 1));
  }
  Placeholders placeholders(const PixelBlock& block) const override;
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override {
    return choose_(frames, per_second);
  }
  Result<PixelBlock> process_film(std::span<const Picture> pictures, const FilmTimes& times) const override;
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override;

 private:
  MiniCpmProcessor(Settings& settings, Settings films);
  void add_view(Placeholders& places, int tokens, bool slice) const {
    places.add(slice ? slice_start_ : start_);
    places.add_image_tokens(tokens);
    places.add(slice ? slice_end_ : end_);
  }

  SlicePlan pictures_, films_;
  FrameRule choose_;
  int stacked_ = 1;
  std::string start_, end_, slice_start_, slice_end_;
  std::array<std::string, 2> numbered_;
};

MiniCpmProcessor::MiniCpmProcessor(Settings& settings, Settings films)
    : pictures_(settings, Arithmetic::stepwise), films_(films, Arithmetic::folded) {
  stacked_ = films.integer("stack_frames", 1, 1, 1 << 10);
  choose_ = plain_frame_rule(films, {});
  if (films.boolean("do_sample_frames", true))
    choose_ = [most = films.integer("max_num_frames", 128)](int frames, double per_second) -> Result<std::vector<int>> {
      return choose_minicpm_v({frames, per_second}, most);
    };
  if (settings.boolean("use_image_id", true))
    numbered_ = {settings.token("image_id_start_token", "<image_id>"),
                 settings.token("image_id_end_token", "</image_id>")};
  film_placeholder_ = film_token_ = settings.token("video_token", "<|video_pad|>");
  start_ = settings.token("image_start_token", "<image>");
  end_ = settings.token("image_end_token", "</image>");
  slice_start_ = settings.token("slice_start_token", "<slice>");
  slice_end_ = settings.token("slice_end_token", "</slice>");
  placeholder_ = image_token_ = settings.token("image_token", "<|image_pad|>");
}

Size SlicePlan::view_size(double height, double width, bool enlarge) const {
  if (height * width > static_cast<double>(side_) * side_ || enlarge) {
    double ratio = width / height;
    height = std::trunc(side_ / std::sqrt(ratio));
    width = std::trunc(height * ratio);
  }
  return {nearest_multiple(height, form_.side * merge_), nearest_multiple(width, form_.side * merge_)};
}

Size SlicePlan::slice_grid(Size picture) const {
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

Result<> SlicePlan::add_views(const Picture& picture, std::vector<Picture>& views) const {
  Size grid = slice_grid(picture.size());
  Size whole = view_size(picture.height, picture.width, grid == Size{});
  if (std::max(whole.height, whole.width) > 1 << 16) return impossible_size(picture.size());
  views.push_back(resize(picture, whole, common_.filter));
  if (grid != Size{}) {
    Size slice = view_size(static_cast<double>(nearest_multiple(picture.height, grid.height)) / grid.height,
                           static_cast<double>(nearest_multiple(picture.width, grid.width)) / grid.width, true);
    if (std::max(slice.height, slice.width) > 1 << 14) return impossible_size(picture.size());
    for (Picture& part :
         cut(resize(picture, {slice.height * grid.height, slice.width * grid.width}, common_.filter), slice))
      views.push_back(std::move(part));
  }
  return success();
}

Result<PixelBlock> SlicePlan::block_of(std::span<const Picture> pictures) const {
  if (!common_.resize) return bad_file("this picture processor always resizes: do_resize must be true", "do_resize");
  std::vector<Picture> views;
  for (const Picture& picture : pictures) {
    if (picture.size() != pictures[0].size()) return bad_request("the frames of a film must all have one size");
    ESP_CHECK(add_views(picture, views));
  }
  PixelBlock block = tile_block(views, table_, form_, slice_grid(pictures[0].size()));
  block.original = pictures[0].size();
  block.resized = views[0].size();
  return block;
}

Result<PixelBlock> MiniCpmProcessor::process_film(std::span<const Picture> pictures, const FilmTimes&) const {
  if (pictures.empty()) return bad_request("a film needs at least one frame");
  if (stacked_ > 1)
    return Error{Error::Kind::unsupported,
                 "this model's files put several frames of a film into one picture (stack_frames), which is not read: "
                 "send single pictures",
                 "stack_frames",
                 {}};
  ESP_TRY(PixelBlock block, films_.block_of(pictures));
  block.grid.time = static_cast<int>(pictures.size());
  return block;
}

Placeholders MiniCpmProcessor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  places.numbered = numbered_;
  for (int i = 0; i < block.tiles; ++i) {
    if (i > 1 && (i - 1) % block.columns == 0) places.add("\n");
    add_view(places, pictures_.tokens_of_view(block, i), i > 0);
  }
  return places;
}

Result<Placeholders> MiniCpmProcessor::film_placeholders(const PixelBlock& block, const FilmTimes&) const {
  Placeholders places;
  places.numbered = numbered_;
  const int views = 1 + block.rows * block.columns;
  for (int view = 0; view < block.tiles; ++view) {
    const int slice = view % views;
    if (slice > 1 && (slice - 1) % block.columns == 0) places.add("\n");
    add_view(places, films_.tokens_of_view(block, view), slice > 0);
  }
  return places;
}

}  // namespace

MadeProcessor make_minicpm_v(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<MiniCpmProcessor>(settings));
}

}  // namespace espalier::pictures
