#include "image/processors/grid_processor.h"

#include <algorithm>
#include <utility>

namespace espalier::pictures {

namespace {

// `frames`: those that share the family's budget of pixels.
Result<FittedSize> fit_size(const GridPlan& plan, Size picture, int frames) {
  FittedSize size{picture, picture};
  if (plan.common.resize) {
    ESP_TRY(size, plan.fit(picture, frames));
  }
  int step = plan.form.side * plan.merge;
  if (size.whole.height % step != 0 || size.whole.width % step != 0) return impossible_size(picture);
  return size;
}

// A block of `count` pictures, without its values.
Result<PixelBlock> plan_block(const GridPlan& plan, Size picture, int count, int frames) {
  ESP_TRY(const FittedSize size, fit_size(plan, picture, frames));
  PixelBlock block;
  block.original = picture;
  block.resized = size.whole;
  block.grid = {(count + plan.together - 1) / plan.together, size.whole.height / plan.form.side,
                size.whole.width / plan.form.side};
  std::int64_t patches = static_cast<std::int64_t>(block.grid.time) * block.grid.height * block.grid.width;
  block.shape = {patches, std::int64_t{3} * plan.together * plan.form.side * plan.form.side};
  if (plan.square_rows) block.shape = {patches, 3, plan.form.side, plan.form.side};
  return block;
}

// The last picture stands in its patches for those that are missing there.
Result<> fill_block(const GridPlan& plan, PixelBlock& block, int count, int frames, const NextFrame& next) {
  ESP_TRY(const FittedSize size, fit_size(plan, block.original, frames));
  const ByteTable table(plan.common);
  std::vector<Picture> group;
  for (int i = 0; i < count; ++i) {
    ESP_TRY(const Picture picture, next());
    Picture content = resize(picture, size.content, plan.common.filter);
    group.push_back(size.content == size.whole ? std::move(content) : frame(content, 0, 0, size.whole));
    const auto together = static_cast<std::size_t>(plan.together);
    if (group.size() < together && i + 1 < count) continue;
    std::vector<const Picture*> pictures(together, &group.back());
    for (std::size_t k = 0; k < group.size(); ++k) pictures[k] = &group[k];
    append_patches(pictures, table, plan.form, block.values);
    group.clear();
  }
  return success();
}

}  // namespace

GridPlan read_grid_plan(Settings& settings, GridPlan plan) {
  plan.common = settings.common(plan.common.filter, plan.common.mean, plan.common.std, plan.common.arithmetic);
  plan.form.side = settings.integer("patch_size", plan.form.side, 1, 1024);
  bool merged_rows = plan.form.merge > 1;
  plan.merge = settings.integer("merge_size", plan.merge, 1, 64);
  plan.form.merge = merged_rows ? plan.merge : 1;
  plan.together = settings.integer("temporal_patch_size", plan.together, 1, 64);
  SizeRule size = settings.size("size", {}, false);
  plan.lowest = settings.area("min_pixels", size.shortest_edge.value_or(static_cast<int>(plan.lowest)));
  plan.highest = settings.area("max_pixels", size.longest_edge.value_or(static_cast<int>(plan.highest)));
  return plan;
}

GridProcessor::GridProcessor(GridPlan plan, std::string image_token) : plan_(std::move(plan)) {
  placeholder_ = image_token;
  image_token_ = std::move(image_token);
}

int GridProcessor::tokens_of(const PixelBlock& block) const {
  return block.grid.time * block.grid.height * block.grid.width / (plan_.merge * plan_.merge);
}

Result<PixelBlock> GridProcessor::process(const Picture& picture) const {
  ESP_TRY(PixelBlock block, plan_block(plan_, picture.size(), 1, plan_.together));
  block.values.reserve(static_cast<std::size_t>(block.value_count()));
  ESP_CHECK(fill_block(plan_, block, 1, plan_.together, [&]() -> Result<Picture> { return picture; }));
  return block;
}

Placeholders GridProcessor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  places.add_image_tokens(tokens_of(block));
  return places;
}

Result<std::vector<int>> GridProcessor::choose_frames(int frames, double per_second) const {
  if (!films_) return Processor::choose_frames(frames, per_second);
  return films_->choose(frames, per_second);
}

Result<PixelBlock> GridProcessor::plan_film(Size frame, int frames, const FilmTimes& times) const {
  if (!films_) return Processor::plan_film(frame, frames, times);
  ESP_TRY(PixelBlock block, plan_block(films_->grid, frame, frames, frames));
  block.film_part = films_->part;
  block.seconds = films_->grid.together / times.per_second;
  return block;
}

Result<> GridProcessor::append_frames(PixelBlock& block, int frames, const NextFrame& next) const {
  return fill_block(films_->grid, block, frames, frames, next);
}

Result<Placeholders> GridProcessor::film_placeholders(const PixelBlock& block, const FilmTimes& times) const {
  if (!films_) return Processor::film_placeholders(block, times);
  return placeholders(block);
}

}  // namespace espalier::pictures
