// GLM-5-next: a canvas in multiples of a token within a budget of tokens; the picture keeps its ratio on it, the rest is
// black at the right and below.
#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

// A budget in tokens, as pixels over the pictures that one patch spans.
struct TokenBudget {
  int factor = 28, together = 2;
  std::int64_t lowest = 0, highest = 0;

  std::int64_t aligned(double side) const { return static_cast<std::int64_t>(std::ceil(side / factor)) * factor; }
  std::int64_t pixels(std::int64_t height, std::int64_t width) const { return together * height * width; }
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
                             (static_cast<double>(budget.together) * picture.height * picture.width));
    down = budget.aligned(std::max(1.0, std::ceil(picture.height * scale)));
    across = budget.aligned(std::max(1.0, std::ceil(picture.width * scale)));
  }
  if (budget.pixels(down, across) > budget.highest) return largest_canvas(budget, picture);
  return {static_cast<int>(down), static_cast<int>(across)};
}

FittedSize fit(const TokenBudget& budget, Size picture) {
  Size canvas = canvas_of(budget, picture);
  double scale =
      std::min(static_cast<double>(canvas.height) / picture.height, static_cast<double>(canvas.width) / picture.width);
  if (budget.pixels(picture.height, picture.width) >= budget.lowest) scale = std::min(1.0, scale);
  Size content{std::max(1, std::min(canvas.height, static_cast<int>(std::floor(picture.height * scale)))),
               std::max(1, std::min(canvas.width, static_cast<int>(std::floor(picture.width * scale))))};
  return {content, canvas};
}

}  // namespace

MadeProcessor make_glm5_next(Settings& settings) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std};
  plan.form = {.side = 14, .merge = 2};
  plan = read_grid_plan(settings, plan);
  TokenBudget budget{plan.form.side * plan.merge, plan.together};
  std::int64_t token_pixels = static_cast<std::int64_t>(plan.together) * budget.factor * budget.factor;
  budget.lowest = settings.integer("min_image_tokens", 16) * token_pixels;
  budget.highest = settings.integer("max_image_tokens", 8'000) * token_pixels;
  plan.fit = [budget](Size picture, int) -> Result<FittedSize> { return fit(budget, picture); };
  auto processor = std::make_unique<GridProcessor>(std::move(plan), settings.token("image_token", "<|image|>"));
  processor->set_surroundings("<|begin_of_image|>", "<|end_of_image|>");
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
