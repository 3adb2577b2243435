// MiniMax-M3-VL: as Qwen2-VL, with torchvision's arithmetic and marks around each picture.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

// Writes the family's own marks.
class MinimaxProcessor : public GridProcessor {
 public:
  using GridProcessor::GridProcessor;
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    places.add("]<]start of image[>[");
    places.add_image_tokens(tokens_of(block));
    places.add("]<]end of image[>[");
    return places;
  }
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override {
    Placeholders places;
    const std::vector<double>& seconds = times.frames;
    const auto together = static_cast<std::size_t>(plan().together);
    for (std::size_t group = 0; group < static_cast<std::size_t>(block.grid.time); ++group) {
      if (times.told && !seconds.empty())
        places.add(fmt::format("]<]{:.1f} seconds[>[", seconds[std::min(group * together, seconds.size() - 1)]));
      places.add("]<]start of image[>[");
      places.add_image_tokens(tokens_of_step(block));
      places.add("]<]end of image[>[");
    }
    return places;
  }
};

GridPlan minimax_plan(Settings& settings, std::int64_t highest) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std, .arithmetic = Arithmetic::folded};
  plan.form = {.side = 14, .merge = 2};
  plan.lowest = 4 * 28 * 28;
  plan.highest = highest;  // also where a file says [672, 672], which published ones do and never meant
  plan = read_grid_plan(settings, plan);
  plan.fit = [factor = plan.form.side * plan.merge, lowest = plan.lowest, most = plan.highest](Size picture, int) {
    return fitted(size_in_budget(picture, factor, {lowest, most}));
  };
  return plan;
}

}  // namespace

MadeProcessor make_minimax_m3_vl(Settings& settings) {
  auto processor = std::make_unique<MinimaxProcessor>(minimax_plan(settings, 451'584), "]<]image[>[");
  Settings films = settings.video();
  FilmPlan plan{minimax_plan(films, 768 * 28 * 28), plain_frame_rule(films, {.per_second = 1})};
  plan.part = films.integer("vision_segment_max_frames", 4);
  processor->set_films(std::move(plan), "]<]video[>[", "]<]video[>[");
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
