// Kimi K2.5: never enlarged, shrunk into a number of patches and a longest side; black at the right and below up to whole
// tokens; patches in rows of the grid.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

FittedSize fit_patches(Size picture, int side, int merge, int most_patches, int longest) {
  double patches = std::max(1.0, std::floor(static_cast<double>(picture.height) / side)) *
                   std::max(1.0, std::floor(static_cast<double>(picture.width) / side));
  double limit = static_cast<double>(longest) * side;
  double scale = std::min({1.0, std::sqrt(most_patches / patches), limit / picture.height, limit / picture.width});
  int most = static_cast<int>(std::min(limit, 65'536.0));
  Size content{std::min(std::max(1, static_cast<int>(picture.height * scale)), most),
               std::min(std::max(1, static_cast<int>(picture.width * scale)), most)};
  int factor = side * merge;
  return {content, {(content.height + factor - 1) / factor * factor, (content.width + factor - 1) / factor * factor}};
}

GridPlan read_kimi_plan(Settings& settings, int most_patches) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = half, .std = half, .arithmetic = Arithmetic::folded};
  plan.together = 1;
  plan.square_rows = true;
  plan = read_grid_plan(settings, plan);
  plan.together = 1;
  int most = settings.area("max_patches", most_patches),
      longest = settings.size("size", {}, true).max_height.value_or(512);
  plan.fit = [side = plan.form.side, merge = plan.merge, most, longest](Size picture, int) -> Result<FittedSize> {
    return fit_patches(picture, side, merge, most, longest);
  };
  return plan;
}

// Parts of a few frames each become as many tokens as one frame, behind the part's time.
class KimiProcessor : public GridProcessor {
 public:
  using GridProcessor::GridProcessor;
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override {
    Placeholders places;
    for (int first = 0; first < block.grid.time; first += std::max(1, block.film_part)) {
      const auto frame = std::min(static_cast<std::size_t>(first), times.frames.size() - 1);
      const double at = times.frames.empty() ? 0 : times.frames[frame];
      const auto seconds = static_cast<std::int64_t>(at);
      places.add(fmt::format("{:02}:{:02}:{:02}.{:03}<|media_begin|>video<|media_content|>", seconds / 3600 % 24,
                             seconds / 60 % 60, seconds % 60, static_cast<int>((at - std::floor(at)) * 1000)));
      places.add_image_tokens(tokens_of_step(block));
      places.add("<|media_end|>");
    }
    return places;
  }
};

FilmPlan kimi_films(Settings films) {
  FilmPlan plan{read_kimi_plan(films, 4096), plain_frame_rule(films, {.sample = true, .per_second = 2})};
  plan.part = films.integer("temporal_patch_size", 4, 1, 64);
  return plan;
}

}  // namespace

MadeProcessor make_kimi_k25(Settings& settings) {
  auto processor =
      std::make_unique<KimiProcessor>(read_kimi_plan(settings, 16'384), settings.token("image_token", "<|media_pad|>"));
  processor->set_surroundings("<|media_begin|>image<|media_content|>", "<|media_end|>");
  const std::string token = settings.token("video_token", "<|kimi_k25_video_placeholder|>");
  processor->set_films(kimi_films(settings.video()), token, token);
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
