// GLM-4.1V, 4.5V, 4.6V and GLM-OCR: as Qwen2-VL, but the bounds count the two pictures in time that a patch spans, and
// pictures smaller than a token are enlarged first.
#include <fmt/format.h>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

GridPlan read_plan(Settings& settings, int highest, Arithmetic arithmetic) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std, .arithmetic = arithmetic};
  plan.form = {.side = 14, .merge = 2};
  plan.lowest = 112 * 112;
  plan.highest = highest;
  plan = read_grid_plan(settings, plan);
  plan.fit = [factor = plan.form.side * plan.merge, lowest = plan.lowest, highest_area = plan.highest,
              together = plan.together](Size picture, int frames) -> Result<FittedSize> {
    if (frames < together) return bad_request(fmt::format("a film needs at least {} frames", together));
    Size size = picture;
    if (size.height < factor || size.width < factor) {
      double scale = std::max(static_cast<double>(factor) / size.height, static_cast<double>(factor) / size.width);
      size = {static_cast<int>(size.height * scale), static_cast<int>(size.width * scale)};
    }
    return fitted(size_in_budget(size, factor, {lowest, highest_area, frames, together}));
  };
  return plan;
}

// Marks around each group of frames, and its time behind it.
class GlmProcessor : public GridProcessor {
 public:
  GlmProcessor(GridPlan plan, std::string image_token, bool whole_seconds)
      : GridProcessor(std::move(plan), std::move(image_token)), whole_seconds_(whole_seconds) {}
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override {
    Placeholders places;
    const std::vector<double>& seconds = times.frames;
    for (std::size_t group = 0; group < static_cast<std::size_t>(block.grid.time); ++group) {
      double at = seconds.empty() ? 0 : seconds[std::min(2 * group, (seconds.size() - 1) / 2 * 2)];
      places.add("<|begin_of_image|>");
      places.add_image_tokens(tokens_of_step(block));
      places.add("<|end_of_image|>" +
                 (whole_seconds_ ? std::to_string(static_cast<std::int64_t>(at)) : fmt::format("{:.1f} seconds", at)));
    }
    return places;
  }

 private:
  bool whole_seconds_;
};

FrameRule glm4v_frame_rule(Settings& films, int together) {
  const bool newer = films.film_type() == "Glm46VVideoProcessor";
  const double wanted = films.number("fps", 2), longest = films.number("max_duration", 300);
  if (!films.boolean("do_sample_frames", true)) return plain_frame_rule(films, {});
  return [=](int frames, double per_second) -> Result<std::vector<int>> {
    if (newer) return choose_glm46v({frames, per_second}, together);
    return choose_glm4v({frames, per_second}, wanted, longest);
  };
}

}  // namespace

std::unique_ptr<GridProcessor> glm_processor(GridPlan plan, std::string image_token, bool whole_seconds) {
  return std::make_unique<GlmProcessor>(std::move(plan), std::move(image_token), whole_seconds);
}

MadeProcessor make_glm4v(Settings& settings) {
  const std::string whole = settings.processor_class();
  const bool older = whole.empty() ? settings.type() == "Glm4vImageProcessor" : whole == "Glm4vProcessor";
  auto processor = glm_processor(read_plan(settings, 28 * 28 * 15'000, Arithmetic::stepwise),
                                 settings.token("image_token", "<|image|>"), older);
  processor->set_surroundings("<|begin_of_image|>", "<|end_of_image|>");
  Settings films = settings.video();
  FilmPlan plan{read_plan(films, 28 * 28 * 2 * 30'000, Arithmetic::folded), {}};
  plan.choose = glm4v_frame_rule(films, plan.grid.together);
  processor->set_films(std::move(plan), settings.token("video_token", "<|video|>"), processor->image_token());
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
