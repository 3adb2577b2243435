// PaddleOCR-VL: pictures narrower than a token are enlarged, then as Qwen2-VL; patches in rows of the grid.
#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

// Each side by itself, the height first.
Size at_least(Size picture, int side) {
  std::int64_t height = picture.height, width = picture.width;
  if (height < side) {
    width = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(width * side) / static_cast<double>(height)));
    height = side;
  }
  if (width < side) {
    height = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(height * side) / static_cast<double>(width)));
    width = side;
  }
  return {static_cast<int>(std::min<std::int64_t>(height, 1 << 24)),
          static_cast<int>(std::min<std::int64_t>(width, 1 << 24))};
}

}  // namespace

MadeProcessor make_paddleocr_vl(Settings& settings) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std};
  plan.together = 1;
  plan.square_rows = true;
  plan.lowest = 384 * 384;
  plan.highest = 1536 * 1536;
  plan = read_grid_plan(settings, plan);
  plan.together = 1;
  plan.fit = [factor = plan.form.side * plan.merge, lowest = plan.lowest, highest = plan.highest](
                 Size picture, int) -> Result<FittedSize> {
    return fitted(size_in_budget(at_least(picture, factor), factor, {lowest, highest}));
  };
  auto processor =
      std::make_unique<GridProcessor>(std::move(plan), settings.token("image_token", "<|IMAGE_PLACEHOLDER|>"));
  processor->set_surroundings("<|IMAGE_START|>", "<|IMAGE_END|>");
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
