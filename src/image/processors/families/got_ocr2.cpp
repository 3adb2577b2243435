// InternVL (GotOcr2's processor) and Cohere 2 Vision: the picture in a grid of tiles that suits it, and the whole once more
// in one tile where there are several.
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"
#include "image/processors/square_frames.h"

namespace espalier::pictures {

namespace {

// Cohere's choice: the grid that needs least enlarging, or else least shrinking; numpy's doubles.
Size least_scaled_grid(Size picture, std::span<const Size> grids, int tile) {
  auto scale_of = [&](Size grid) {
    return std::min(static_cast<double>(grid.width * tile) / picture.width,
                    static_cast<double>(grid.height * tile) / picture.height);
  };
  Size best = grids[0];
  bool shrinks = std::all_of(grids.begin(), grids.end(), [&](Size grid) { return scale_of(grid) < 1; });
  double best_scale = shrinks ? -1 : 10e9;
  for (Size grid : grids) {
    double scale = scale_of(grid);
    if (shrinks ? scale > best_scale : scale >= 1 && scale < best_scale) {
      best = grid;
      best_scale = scale;
    }
  }
  return best;
}

// Dynamic tiles; subclasses say what stands for them in the text.
class DynamicTiles : public Processor {
 public:
  Result<PixelBlock> process(const Picture& picture) const override;

 protected:
  void read(Settings& settings, CommonSettings common, int side, bool split);
  virtual Size grid_of(Size picture) const = 0;

  CommonSettings common_;
  ByteTable table_;
  Size tile_;
  bool split_ = true;
  std::vector<Size> grids_;
};

void DynamicTiles::read(Settings& settings, CommonSettings common, int side, bool split) {
  common_ = common;
  table_ = ByteTable(common_);
  SizeRule size = settings.size("size", {side, side, {}, {}, {}, {}}, true);
  tile_ = {size.height.value_or(side), size.width.value_or(side)};
  split_ = split;
  int lowest = settings.integer("min_patches", 1, 1, 256);
  grids_ = tile_grids(lowest, std::max(settings.integer("max_patches", 12, 1, 256), lowest));
}

Result<PixelBlock> DynamicTiles::process(const Picture& picture) const {
  Size grid = split_ ? grid_of(picture.size()) : Size{1, 1};
  Picture canvas = resize(picture, {grid.height * tile_.height, grid.width * tile_.width}, common_.filter);
  std::vector<Picture> tiles = cut(canvas, tile_);
  if (tiles.size() > 1) tiles.push_back(resize(picture, tile_, common_.filter));
  PixelBlock block = tile_block(tiles, table_);
  block.original = picture.size();
  block.resized = canvas.size();
  block.rows = grid.height;
  block.columns = grid.width;
  return block;
}

// InternVL.
class GotOcr2Processor : public DynamicTiles {
 public:
  explicit GotOcr2Processor(Settings& settings) {
    bool internvl = settings.processor_class() == "InternVLProcessor" || settings.model_type().starts_with("internvl");
    read(settings, settings.common(Filter::bicubic, clip_mean, clip_std), 384,
         internvl || settings.boolean("crop_to_patches", false));
    read_films(settings.video());
    tokens_ = settings.of_processor("image_seq_length", settings.of_config("image_seq_length", 256, 1));
    start_ = settings.token("start_image_token", "<img>");
    end_ = settings.token("end_image_token", "</img>");
    placeholder_ = image_token_ = settings.token("context_image_token", "<IMG_CONTEXT>");
    film_placeholder_ = settings.token("video_token", "<video>");
    film_token_ = image_token_;
  }
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    add_view(places, tokens_ * block.tiles);
    return places;
  }
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override {
    return choose_(frames, per_second);
  }
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes&) const override {
    return films_.plan(frame, frames);
  }
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes&) const override {
    Placeholders places;
    for (int i = 1; i <= block.tiles; ++i) {
      places.add((i > 1 ? "\nFrame" : "Frame") + std::to_string(i) + ": ");
      add_view(places, tokens_);
    }
    return places;
  }

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override {
    return films_.append(block, frames, next);
  }
  Size grid_of(Size picture) const override { return nearest_grid(picture, grids_, tile_); }

 private:
  void add_view(Placeholders& places, int tokens) const {
    places.add(start_);
    places.add_image_tokens(tokens);
    places.add(end_);
  }

  void read_films(Settings films) {
    films_ = SquareFrames(films, {384, 384});
    choose_ = plain_frame_rule(films, {});
    if (!films.boolean("do_sample_frames", false)) return;
    const int count = films.integer("num_frames", 0, 0);
    const double wanted = films.number("fps", 0);
    const Json* given = films.member("initial_shift");
    std::optional<double> shift;  // none: half a part
    if (given != nullptr && !(given->is_boolean() && given->get<bool>()))
      shift = given->is_number() ? std::max(0.0, given->get<double>()) : 0;
    choose_ = [=](int frames, double per_second) -> Result<std::vector<int>> {
      const int many = count > 0 ? count : static_cast<int>(std::min<double>(frames / per_second * wanted, frames));
      return many > 0 ? choose_internvl(frames, many, shift) : all_frames(frames);
    };
  }

  SquareFrames films_;
  FrameRule choose_;
  int tokens_ = 256;
  std::string start_, end_;
};

// Cohere 2 Vision: a line break behind each tile.
class CohereProcessor : public DynamicTiles {
 public:
  explicit CohereProcessor(Settings& settings) {
    read(settings, settings.common(Filter::bicubic, clip_mean, clip_std, Arithmetic::folded), 512,
         settings.boolean("crop_to_patches", true));
    grids_ = tile_grids(1, settings.integer("max_patches", 12, 1, 256));
    int patch = settings.integer("patch_size", 16, 1, 1024);
    tokens_ = patch * patch;
    start_ = settings.token("boi_token", "<|START_OF_IMG|>");
    end_ = settings.token("eoi_token", "<|END_OF_IMG|>");
    break_ = settings.token("img_line_break_token", "<|IMG_LINE_BREAK|>");
    placeholder_ = image_token_ = settings.token("image_token", "<|IMG_PATCH|>");
  }
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    places.add(start_);
    for (int i = 0; i < block.tiles; ++i) {
      places.add_image_tokens(tokens_);
      places.add(break_);
    }
    places.add(end_);
    return places;
  }

 protected:
  Size grid_of(Size picture) const override { return least_scaled_grid(picture, grids_, tile_.height); }

 private:
  int tokens_ = 256;
  std::string start_, end_, break_;
};

}  // namespace

MadeProcessor make_got_ocr2(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<GotOcr2Processor>(settings));
}

MadeProcessor make_cohere2_vision(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<CohereProcessor>(settings));
}

}  // namespace espalier::pictures
