// Kimi K2.5: never enlarged, shrunk into a number of patches and a longest side; black at the right and below up to whole
// tokens; patches in rows of the grid.
#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

FittedSize fit(Size picture, int side, int merge, int most_patches, int longest) {
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

}  // namespace

MadeProcessor make_kimi_k25(Settings& settings) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = half, .std = half, .arithmetic = Arithmetic::folded};
  plan.together = 1;
  plan.square_rows = true;
  plan = read_grid_plan(settings, plan);
  plan.together = 1;
  int most = settings.area("max_patches", 16'384), longest = settings.size("size", {}, true).max_height.value_or(512);
  plan.fit = [side = plan.form.side, merge = plan.merge, most, longest](Size picture, int) -> Result<FittedSize> {
    return fit(picture, side, merge, most, longest);
  };
  auto processor = std::make_unique<GridProcessor>(std::move(plan), settings.token("image_token", "<|media_pad|>"));
  processor->set_surroundings("<|media_begin|>image<|media_content|>", "<|media_end|>");
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
