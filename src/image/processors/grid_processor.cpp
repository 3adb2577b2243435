#include "image/processors/grid_processor.h"

#include <algorithm>
#include <utility>

namespace espalier::pictures {

namespace {

Result<Picture> fit_picture(const GridPlan& plan, const Picture& picture, int frames) {
  FittedSize size{picture.size(), picture.size()};
  if (plan.common.resize) {
    ESP_TRY(size, plan.fit(picture.size(), frames));
  }
  int step = plan.form.side * plan.merge;
  if (size.whole.height % step != 0 || size.whole.width % step != 0) return impossible_size(picture.size());
  Picture content = resize(picture, size.content, plan.common.filter);
  return size.content == size.whole ? std::move(content) : frame(content, 0, 0, size.whole);
}

Result<PixelBlock> make_block(const GridPlan& plan, std::span<const Picture> pictures, int frames) {
  std::vector<Picture> fitted_pictures;
  for (const Picture& picture : pictures) {
    if (picture.size() != pictures[0].size()) return bad_request("the frames of a film must all have one size");
    ESP_TRY(Picture fitted_picture, fit_picture(plan, picture, frames));
    fitted_pictures.push_back(std::move(fitted_picture));
  }
  PixelBlock block;
  ByteTable table(plan.common);
  auto count = static_cast<int>(pictures.size());
  Size size = fitted_pictures[0].size();
  block.original = pictures[0].size();
  block.resized = size;
  block.grid = {(count + plan.together - 1) / plan.together, size.height / plan.form.side, size.width / plan.form.side};
  for (int first = 0; first < count; first += plan.together) {
    std::vector<const Picture*> group;
    for (int i = first; i < first + plan.together; ++i)
      group.push_back(&fitted_pictures[static_cast<std::size_t>(std::min(i, count - 1))]);
    append_patches(group, table, plan.form, block.values);
  }
  std::int64_t patches = static_cast<std::int64_t>(block.grid.time) * block.grid.height * block.grid.width;
  block.shape = {patches, static_cast<std::int64_t>(block.values.size()) / patches};
  if (plan.square_rows) block.shape = {patches, 3, plan.form.side, plan.form.side};
  return block;
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
  return make_block(plan_, std::span(&picture, 1), plan_.together);
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

Result<PixelBlock> GridProcessor::process_film(std::span<const Picture> pictures, const FilmTimes& times) const {
  if (!films_) return Processor::process_film(pictures, times);
  if (pictures.empty()) return bad_request("a film needs at least one frame");
  ESP_TRY(PixelBlock block, make_block(films_->grid, pictures, static_cast<int>(pictures.size())));
  block.film_part = films_->part;
  block.seconds = films_->grid.together / times.per_second;
  return block;
}

Result<Placeholders> GridProcessor::film_placeholders(const PixelBlock& block, const FilmTimes& times) const {
  if (!films_) return Processor::film_placeholders(block, times);
  return placeholders(block);
}

}  // namespace espalier::pictures
