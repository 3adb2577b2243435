// Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5: sides in multiples of 2 patches, their area within bounds; patches in squares of
// 2 x 2, each over two pictures in time (a single picture counts twice).
#include <fmt/format.h>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/grid_processor.h"

namespace espalier::pictures {

namespace {

GridPlan qwen2_defaults() {
  GridPlan plan;
  plan.common = {.filter = Filter::bicubic, .mean = clip_mean, .std = clip_std};
  plan.form = {.side = 14, .merge = 2};
  plan.lowest = 56 * 56;
  plan.highest = 28 * 28 * 1280;
  return plan;
}

// What a frame may have at least where the sum of all is bounded.
std::int64_t least_cap(std::int64_t lowest) {
  return static_cast<std::int64_t>(static_cast<double>(lowest) * 1.05);
}

// `most_tokens`: of all frames, as the authors' own program bounds them; 0: only each frame is bounded.
void fit_in_budget(GridPlan& plan, std::int64_t most_tokens = 0) {
  const int factor = plan.form.side * plan.merge;
  const auto all = static_cast<std::int64_t>(static_cast<double>(most_tokens * factor * factor) * 0.9) * plan.together;
  plan.fit = [=, lowest = plan.lowest, highest = plan.highest](Size picture, int frames) {
    const std::int64_t cap = all == 0 ? highest : std::max(std::min(highest, all / frames), least_cap(lowest));
    return fitted(size_in_budget(picture, factor, {lowest, cap}));
  };
}

// Qwen3-VL's films: all frames together lie within the bounds of the area; with `most_tokens` each frame besides.
void fit_film_in_budget(GridPlan& plan, std::int64_t most_tokens) {
  plan.fit = [most_tokens, factor = plan.form.side * plan.merge, lowest = plan.lowest, highest_of_all = plan.highest,
              together = plan.together](Size picture, int frames) -> Result<FittedSize> {
    frames = std::max(frames, together);
    std::int64_t highest = highest_of_all;
    if (most_tokens > 0)
      highest = std::max(std::min(most_tokens * factor * factor, highest / frames), least_cap(lowest)) * frames;
    Size size = picture;
    if (size.height < factor || size.width < factor) {
      double scale = std::max(static_cast<double>(factor) / size.height, static_cast<double>(factor) / size.width);
      size = {static_cast<int>(size.height * scale), static_cast<int>(size.width * scale)};
    }
    return fitted(size_in_budget(size, factor, {lowest, highest, frames, together}));
  };
}

// Tokens that bound a film where the files ask for that.
std::int64_t cap_of(Settings& films, int otherwise) {
  const int tokens = films.integer("max_video_tokens", otherwise, 1, 1 << 20);
  return films.boolean("cap_pixels_per_frame", false) ? tokens : 0;
}

FilmPlan qwen2_films(Settings settings) {
  GridPlan defaults = qwen2_defaults();
  defaults.common.arithmetic = Arithmetic::folded;
  defaults.lowest = 128 * 28 * 28;
  defaults.highest = 28 * 28 * 768;
  FilmPlan films{read_grid_plan(settings, defaults), {}};
  fit_in_budget(films.grid, cap_of(settings, 128'000));
  int least = settings.integer("min_frames", 4), most = settings.integer("max_frames", 768),
      together = films.grid.together;
  double wanted = settings.number("fps", 2);
  films.choose = plain_frame_rule(settings, {});
  const int count = settings.integer("num_frames", 0, 0) / together * together;
  if (settings.boolean("do_sample_frames", false))
    films.choose = [=](int frames, double per_second) -> Result<std::vector<int>> {
      if (count > 0) return choose_internvl(frames, count, 0);
      return choose_qwen2_vl({frames, per_second}, wanted, least, most, together);
    };
  return films;
}

FilmPlan qwen3_films(Settings settings) {
  GridPlan defaults = qwen2_defaults();
  defaults.common = {.filter = Filter::bicubic, .mean = half, .std = half, .arithmetic = Arithmetic::folded};
  defaults.form.side = 16;
  defaults.lowest = 128 * 32 * 32;
  defaults.highest = 32 * 32 * 768;
  FilmPlan films{read_grid_plan(settings, defaults), {}};
  fit_film_in_budget(films.grid, cap_of(settings, 768));
  int least = settings.integer("min_frames", 4), most = settings.integer("max_frames", 768);
  double wanted = settings.number("fps", 2);
  films.choose = plain_frame_rule(settings, {});
  if (settings.boolean("do_sample_frames", true))
    films.choose = [=](int frames, double per_second) -> Result<std::vector<int>> {
      return choose_qwen3_vl({frames, per_second}, wanted, least, most);
    };
  return films;
}

// Qwen3-VL writes the time before each group of frames, and marks around it.
class Qwen3Processor : public GridProcessor {
 public:
  Qwen3Processor(GridPlan plan, std::string image_token, std::string start, std::string end)
      : GridProcessor(std::move(plan), std::move(image_token)), start_(std::move(start)), end_(std::move(end)) {}

  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override {
    Placeholders places;
    auto together = static_cast<std::size_t>(plan().together);
    const std::vector<double>& seconds = times.frames;
    for (std::size_t group = 0; group < static_cast<std::size_t>(block.grid.time); ++group) {
      if (seconds.empty()) break;
      double first = seconds[std::min(group * together, seconds.size() - 1)],
             last = seconds[std::min((group + 1) * together - 1, seconds.size() - 1)];
      places.add(fmt::format("<{:.1f} seconds>{}", (first + last) / 2, start_));
      places.add_image_tokens(tokens_of_step(block));
      places.add(end_);
    }
    return places;
  }

 private:
  std::string start_, end_;
};

bool is_third(const Settings& settings) {
  return settings.model_type().starts_with("qwen3");
}

// By the class that the files name, or that transformers derives from the picture's.
FilmPlan qwen_films(const Settings& films) {
  return films.film_type().starts_with("Qwen3") ? qwen3_films(films) : qwen2_films(films);
}

}  // namespace

MadeProcessor make_qwen2_vl(Settings& settings) {
  GridPlan plan = read_grid_plan(settings, qwen2_defaults());
  fit_in_budget(plan);
  std::string token = settings.token("image_token", "<|image_pad|>");
  std::string film_token = settings.token("video_token", "<|video_pad|>");
  const std::string start = settings.token("vision_start_token", "<|vision_start|>"),
                    end = settings.token("vision_end_token", "<|vision_end|>");
  if (is_third(settings)) {
    auto processor = std::make_unique<Qwen3Processor>(std::move(plan), token, start, end);
    processor->set_surroundings(start, end);
    processor->set_films(qwen_films(settings.video()), film_token, film_token);
    return std::unique_ptr<Processor>(std::move(processor));
  }
  auto processor = std::make_unique<GridProcessor>(std::move(plan), token);
  processor->set_surroundings(start, end);
  processor->set_films(qwen_films(settings.video()), film_token, film_token);
  return std::unique_ptr<Processor>(std::move(processor));
}

}  // namespace espalier::pictures
