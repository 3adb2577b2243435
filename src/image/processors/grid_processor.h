// grid_processor.h: towers of native resolution: a picture is brought to a size near its own, and cut into patches.
//
// A family is a GridPlan; what families do differently in words of its own is a subclass.
// Threads: const calls from any thread. Fails: as processor.h says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"
#include "image/processors/processor.h"

namespace espalier::pictures {

// Where the content ends in what the tower reads; the rest is black.
struct FittedSize {
  Size content, whole;
};

// What a family does.
struct GridPlan {
  CommonSettings common;
  PatchForm form;
  int merge = 2;                         // patches along a side that become one token
  int together = 2;                      // pictures in time that one patch spans
  bool square_rows = false;              // shape [patches, 3, side, side]
  std::int64_t lowest = 1, highest = 1;  // of pixels
  std::function<Result<FittedSize>(Size picture, int frames)> fit;
};

// Films of a family: their own numbers, and how frames are chosen.
struct FilmPlan {
  GridPlan grid;
  FrameRule choose;
  int part = 0;  // steps of time that the tower is given at once; 0: all
};

// A processor that follows a plan.
class GridProcessor : public Processor {
 public:
  GridProcessor(GridPlan plan, std::string image_token);
  void set_surroundings(std::string before, std::string behind) {
    before_ = std::move(before);
    behind_ = std::move(behind);
  }
  // `placeholder`: the token that a prompt carries for a film; `token`: those that its features replace.
  void set_films(FilmPlan plan, std::string placeholder, std::string token) {
    films_ = std::make_unique<FilmPlan>(std::move(plan));
    film_placeholder_ = std::move(placeholder);
    film_token_ = std::move(token);
  }

  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override;
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes& times) const override;
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override;

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override;
  int tokens_of(const PixelBlock& block) const;
  // Of one step of time of a film.
  int tokens_of_step(const PixelBlock& block) const { return tokens_of(block) / block.grid.time; }
  const GridPlan& plan() const { return plan_; }

 private:
  GridPlan plan_;
  std::unique_ptr<FilmPlan> films_;
};

// Reads what these families have in common; `fit` stays empty.
GridPlan read_grid_plan(Settings& settings, GridPlan defaults);

// A fit without black edges.
inline Result<FittedSize> fitted(Result<Size> size) {
  if (!size.ok()) return std::move(size).error();
  return FittedSize{*size, *size};
}

}  // namespace espalier::pictures
