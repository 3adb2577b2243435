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
  // The whole and its slices, picture by picture; all of one size. Without values.
  Result<PixelBlock> plan(Size picture, int pictures) const;
  // The values of one.
  Result<> append(const Picture& picture, std::vector<float>& to) const;
  Result<PixelBlock> block_of(const Picture& picture) const;
  int tokens_of_view(const PixelBlock& block, int view) const {
    const Size grid = block.tile_grids[static_cast<std::size_t>(view)];
    return grid.height * grid.width / (merge_ * merge_);
  }

 private:
  Size view_size(double height, double width, bool enlarge) const;
  Size slice_grid(Size picture) const;  // 0 x 0: none
  // The sizes of a picture's whole view and of each of its slices.
  struct Views {
    Size grid, whole, slice;
  };
  Result<Views> views_of(Size picture) const;

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
  Result<PixelBlock> process(const Picture& picture) const override { return pictures_.block_of(picture); }
  Placeholders placeholders(const PixelBlock& block) const override;
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override {
    return choose_(frames, per_second);
  }
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes& times) const override;
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override;

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override;

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
      const int columns = slices / rows;
      const double error = std::fabs(ratio - std::log(static_cast<double>(columns) / rows));
      if (error < least || (error == least && rows > best.height)) {
        best = {rows, columns};
        least = error;
      }
    }
  }
  return best;
}

Result<SlicePlan::Views> SlicePlan::views_of(Size picture) const {
  if (!common_.resize) return bad_file("this picture processor always resizes: do_resize must be true", "do_resize");
  Views views;
  views.grid = slice_grid(picture);
  views.whole = view_size(picture.height, picture.width, views.grid == Size{});
  if (std::max(views.whole.height, views.whole.width) > 1 << 16) return impossible_size(picture);
  if (views.grid == Size{}) return views;
  const Size grid = views.grid;
  views.slice = view_size(static_cast<double>(nearest_multiple(picture.height, grid.height)) / grid.height,
                          static_cast<double>(nearest_multiple(picture.width, grid.width)) / grid.width, true);
  if (std::max(views.slice.height, views.slice.width) > 1 << 14) return impossible_size(picture);
  return views;
}

Result<PixelBlock> SlicePlan::plan(Size picture, int pictures) const {
  ESP_TRY(const Views views, views_of(picture));
  PixelBlock block;
  block.original = picture;
  block.resized = views.whole;
  block.rows = views.grid.height;
  block.columns = views.grid.width;
  const int slices = block.rows * block.columns;
  block.tiles = pictures * (1 + slices);
  std::int64_t patches = 0;
  for (int i = 0; i < block.tiles; ++i) {
    const Size size = i % (1 + slices) == 0 ? views.whole : views.slice;
    block.tile_grids.push_back({size.height / form_.side, size.width / form_.side});
    patches += std::int64_t{block.tile_grids.back().height} * block.tile_grids.back().width;
  }
  block.shape = {patches, 3, form_.side, form_.side};
  return block;
}

Result<> SlicePlan::append(const Picture& picture, std::vector<float>& to) const {
  ESP_TRY(const Views views, views_of(picture.size()));
  append_patches(resize(picture, views.whole, common_.filter), table_, form_, to);
  if (views.grid == Size{}) return success();
  const Size all{views.slice.height * views.grid.height, views.slice.width * views.grid.width};
  for (const Picture& slice : cut(resize(picture, all, common_.filter), views.slice))
    append_patches(slice, table_, form_, to);
  return success();
}

Result<PixelBlock> SlicePlan::block_of(const Picture& picture) const {
  ESP_TRY(PixelBlock block, plan(picture.size(), 1));
  block.values.reserve(static_cast<std::size_t>(block.value_count()));
  ESP_CHECK(append(picture, block.values));
  return block;
}

Result<PixelBlock> MiniCpmProcessor::plan_film(Size frame, int frames, const FilmTimes&) const {
  if (stacked_ > 1)
    return Error{Error::Kind::unsupported,
                 "this model's files put several frames of a film into one picture (stack_frames), which is not read: "
                 "send single pictures",
                 "stack_frames",
                 {}};
  ESP_TRY(PixelBlock block, films_.plan(frame, frames));
  block.grid.time = frames;
  return block;
}

Result<> MiniCpmProcessor::append_frames(PixelBlock& block, int frames, const NextFrame& next) const {
  for (int i = 0; i < frames; ++i) {
    ESP_TRY(const Picture picture, next());
    ESP_CHECK(films_.append(picture, block.values));
  }
  return success();
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
