// MiniMax-M3-VL: as Qwen2-VL, with torchvision's arithmetic and marks around each picture.
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
};

}  // namespace

MadeProcessor make_minimax_m3_vl(Settings& settings) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std, .arithmetic = Arithmetic::folded};
  plan.form = {.side = 14, .merge = 2};
  plan.lowest = 4 * 28 * 28;
  plan.highest = 451'584;  // also where a file says [672, 672], which published ones do and never meant
  plan = read_grid_plan(settings, plan);
  plan.fit = [factor = plan.form.side * plan.merge, lowest = plan.lowest, highest = plan.highest](Size picture, int) {
    return fitted(size_in_budget(picture, factor, {lowest, highest}));
  };
  return std::unique_ptr<Processor>(std::make_unique<MinimaxProcessor>(std::move(plan), "]<]image[>["));
}

}  // namespace espalier::pictures
