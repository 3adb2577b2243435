// HunYuan-VL: sizes as Qwen2-VL, always bicubic whatever the file says; patches in rows of the grid. In the text each row of
// tokens has one more, and the picture two more.
#include "image/processors/families/families.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

// Counts the tokens that the model puts between rows.
class HunyuanProcessor : public GridProcessor {
 public:
  using GridProcessor::GridProcessor;
  Placeholders placeholders(const PixelBlock& block) const override {
    Placeholders places;
    places.add_image_tokens(block.grid.height / plan().merge * (block.grid.width / plan().merge + 1) + 2);
    return places;
  }
};

}  // namespace

MadeProcessor make_hunyuan_vl(Settings& settings) {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std};
  plan.form = {.side = 16};
  plan.together = 1;
  plan.lowest = 512 * 512;
  plan.highest = 2048 * 2048;
  plan = read_grid_plan(settings, plan);
  plan.common.filter = Filter::bicubic;
  plan.fit = [factor = plan.form.side * plan.merge, lowest = plan.lowest, highest = plan.highest](Size picture, int) {
    return fitted(size_in_budget(picture, factor, {lowest, highest}));
  };
  auto processor = std::make_unique<HunyuanProcessor>(std::move(plan), settings.token("image_token", "<|image_pad|>"));
  processor->set_surroundings(settings.token("image_start_token", "<｜hy_place▁holder▁no▁100｜>"),
                              settings.token("image_end_token", "<｜hy_place▁holder▁no▁101｜>"));
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
