// GLM-5-next: a canvas in multiples of a token within a budget of tokens; the picture keeps its ratio on it, the rest is
// black at the right and below.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

// A budget in tokens, as pixels over the frames of a film, or those that one patch spans.
struct TokenBudget {
  int factor = 28, frames = 2, aligned_frames = 2;  // these in multiples of what a patch spans
  std::int64_t lowest = 0, highest = 0;

  std::int64_t aligned(double side) const { return static_cast<std::int64_t>(std::ceil(side / factor)) * factor; }
  std::int64_t pixels(std::int64_t height, std::int64_t width) const { return aligned_frames * height * width; }
};

// The largest content of the picture's ratio whose canvas is within the budget.
Size largest_canvas(const TokenBudget& budget, Size picture) {
  Size best{budget.factor, budget.factor};
  for (int low = 1, high = picture.height; low <= high;) {
    int height = (low + high) / 2;
    double width = std::max(
        1.0, std::floor(static_cast<double>(static_cast<std::int64_t>(picture.width) * height) / picture.height));
    std::int64_t down = budget.aligned(height), across = budget.aligned(width);
    if (budget.pixels(down, across) <= budget.highest) {
      best = {static_cast<int>(down), static_cast<int>(across)};
      low = height + 1;
    } else {
      high = height - 1;
    }
  }
  return best;
}

Size canvas_of(const TokenBudget& budget, Size picture) {
  std::int64_t down = budget.aligned(picture.height), across = budget.aligned(picture.width);
  if (budget.pixels(down, across) < budget.lowest) {
    double scale = std::sqrt(static_cast<double>(budget.lowest) /
                             (static_cast<double>(budget.frames) * picture.height * picture.width));
    down = budget.aligned(std::max(1.0, std::ceil(picture.height * scale)));
    across = budget.aligned(std::max(1.0, std::ceil(picture.width * scale)));
  }
  if (budget.pixels(down, across) > budget.highest) return largest_canvas(budget, picture);
  return {static_cast<int>(down), static_cast<int>(across)};
}

FittedSize fit_canvas(const TokenBudget& budget, Size picture) {
  Size canvas = canvas_of(budget, picture);
  double scale =
      std::min(static_cast<double>(canvas.height) / picture.height, static_cast<double>(canvas.width) / picture.width);
  if (static_cast<std::int64_t>(budget.frames) * picture.height * picture.width >= budget.lowest)
    scale = std::min(1.0, scale);
  Size content{std::max(1, std::min(canvas.height, static_cast<int>(std::floor(picture.height * scale)))),
               std::max(1, std::min(canvas.width, static_cast<int>(std::floor(picture.width * scale))))};
  return {content, canvas};
}

GridPlan read_glm5_plan(Settings& settings, int most_tokens, Arithmetic arithmetic) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std, .arithmetic = arithmetic};
  plan.form = {.side = 14, .merge = 2};
  plan = read_grid_plan(settings, plan);
  TokenBudget budget{plan.form.side * plan.merge * settings.integer("patch_expand_factor", 1, 1, 64)};
  const std::int64_t token_pixels = static_cast<std::int64_t>(plan.together) * budget.factor * budget.factor;
  budget.lowest = settings.integer("min_image_tokens", 16) * token_pixels;
  budget.highest = settings.integer("max_image_tokens", most_tokens, 1, 1 << 24) * token_pixels;
  plan.fit = [budget, together = plan.together](Size picture, int frames) -> Result<FittedSize> {
    TokenBudget own = budget;
    own.frames = frames;
    own.aligned_frames = std::max(together, rounded(static_cast<double>(frames) / together) * together);
    if (own.highest < own.pixels(own.factor, own.factor))
      return bad_request(fmt::format("a film of {} frames is longer than the model takes: send fewer frames", frames));
    return fit_canvas(own, picture);
  };
  return plan;
}

FilmPlan glm5_films(Settings films) {
  FilmPlan plan{read_glm5_plan(films, 240'000, Arithmetic::folded), {}};
  const double wanted = films.number("fps", 2), longest = films.number("max_duration", 0);
  const int most = films.integer("max_frames", 2048);
  plan.choose = plain_frame_rule(films, {});
  if (films.boolean("do_sample_frames", true) && wanted > 0)
    plan.choose = [=](int frames, double per_second) -> Result<std::vector<int>> {
      return choose_glm5_next({frames, per_second}, wanted, most, longest);
    };
  return plan;
}

}  // namespace

MadeProcessor make_glm5_next(Settings& settings) {
  auto processor = glm_processor(read_glm5_plan(settings, 8'000, Arithmetic::stepwise),
                                 settings.token("image_token", "<|image|>"), false);
  processor->set_surroundings("<|begin_of_image|>", "<|end_of_image|>");
  processor->set_films(glm5_films(settings.video()), settings.token("video_token", "<|video|>"),
                       processor->image_token());
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
