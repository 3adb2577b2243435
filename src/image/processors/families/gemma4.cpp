// Gemma 4: as large as a budget of patches allows, sides in multiples of 3 patches; patches in rows of the grid, colours last.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// How pictures, or the frames of films, are made ready; each 3 x 3 of their patches become a token.
class Gemma4Plan {
 public:
  Gemma4Plan(Settings& settings, bool films)
      : common_(
            settings.common(Filter::bicubic, {0, 0, 0}, {1, 1, 1}, films ? Arithmetic::folded : Arithmetic::stepwise)) {
    common_.normalize = settings.boolean("do_normalize", films);
    table_ = ByteTable(common_);
    form_ = {.side = settings.integer("patch_size", 16, 1, 1024), .merge = 1, .colour_last = true};
    pooled_ = settings.integer("pooling_kernel_size", 3, 1, 64);
    most_tokens_ = settings.integer("max_soft_tokens", films ? 70 : 280);
  }
  // Pictures of one size, without their values.
  Result<PixelBlock> plan(Size picture, int pictures) const;
  void append(const Picture& picture, PixelBlock& block) const;
  int tokens_of_frame(const PixelBlock& block) const {
    return block.grid.height * block.grid.width / (pooled_ * pooled_);
  }

 private:
  Result<Size> fit(Size picture) const;

  CommonSettings common_;
  ByteTable table_;
  PatchForm form_;
  int pooled_ = 3, most_tokens_ = 280;
};

// Patches of one picture, or of each frame of a film, which stands behind its time.
class Gemma4Processor : public Processor {
 public:
  explicit Gemma4Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override {
    ESP_TRY(PixelBlock block, pictures_.plan(picture.size(), 1));
    pictures_.append(picture, block);
    return block;
  }
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    add_frame(places, pictures_.tokens_of_frame(block));
    return places;
  }
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override {
    return choose_(frames, per_second);
  }
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes&) const override {
    return films_.plan(frame, frames);
  }
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override;

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override;

 private:
  Gemma4Processor(Settings& settings, Settings films);
  void add_frame(Placeholders& places, int tokens) const {
    places.add(start_);
    places.add_image_tokens(tokens);
    places.add(end_);
  }

  Gemma4Plan pictures_, films_;
  FrameRule choose_;
  std::string start_, end_;
};

Gemma4Processor::Gemma4Processor(Settings& settings) : Gemma4Processor(settings, settings.video()) {}

Gemma4Processor::Gemma4Processor(Settings& settings, Settings films)
    : pictures_(settings, false), films_(films, true), choose_(plain_frame_rule(films, {.sample = true, .count = 32})) {
  start_ = settings.token("boi_token", "<|image>");
  end_ = settings.token("eoi_token", "<image|>");
  placeholder_ = image_token_ = settings.token("image_token", "<|image|>");
  film_placeholder_ = film_token_ = "<|video|>";
}

Result<Size> Gemma4Plan::fit(Size picture) const {
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

Result<PixelBlock> Gemma4Plan::plan(Size picture, int pictures) const {
  PixelBlock block;
  block.original = block.resized = picture;
  if (common_.resize) {
    ESP_TRY(block.resized, fit(picture));
  }
  block.grid = {pictures, block.resized.height / form_.side, block.resized.width / form_.side};
  block.shape = {static_cast<std::int64_t>(block.grid.time) * block.grid.height * block.grid.width,
                 static_cast<std::int64_t>(3) * form_.side * form_.side};
  return block;
}

void Gemma4Plan::append(const Picture& picture, PixelBlock& block) const {
  append_patches(resize(picture, block.resized, common_.filter), table_, form_, block.values);
}

Result<> Gemma4Processor::append_frames(PixelBlock& block, int frames, const NextFrame& next) const {
  for (int i = 0; i < frames; ++i) {
    ESP_TRY(const Picture picture, next());
    films_.append(picture, block);
  }
  return success();
}

Result<Placeholders> Gemma4Processor::film_placeholders(const PixelBlock& block, const FilmTimes& times) const {
  Placeholders places;
  for (std::size_t i = 0; i < times.frames.size(); ++i) {
    const auto seconds = static_cast<std::int64_t>(times.frames[i]);
    places.add(fmt::format("{}{:02}:{:02} ", i == 0 ? "" : " ", seconds / 60, seconds % 60));
    add_frame(places, films_.tokens_of_frame(block));
  }
  return places;
}

}  // namespace

MadeProcessor make_gemma4(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Gemma4Processor>(settings));
}

}  // namespace espalier::pictures
