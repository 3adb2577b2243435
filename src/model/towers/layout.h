// layout.h: how rows of pictures lie in a tower's batch: pure functions of grids, of which families make their layouts.
//
// Units: patches. Threads: pure functions. Source: vision encoders of transformers.
#pragma once

#include <optional>

#include "model/tower_spec.h"

namespace espalier {

// Where a patch stands in its tile or frame.
struct PatchPlace {
  int y = 0, x = 0;
};

// Row by row; or block by block of side x side patches, row by row within each. Requires: side divides both.
std::vector<PatchPlace> patch_places(int height, int width, int side = 1);

// How a learned table of side x side positions is read at other sizes.
struct TableReading {
  enum class Kernel : std::uint8_t { linear, cubic, antialiased };  // antialiased: linear, over more rows if it shrinks
  int side = 1;
  Kernel kernel = Kernel::linear;
  bool corners_meet = false;  // the first and the last position of both grids coincide, instead of their outer edges
  bool zeros_outside = false;
  int first_row = 0;  // of the table
  int taps = 2;       // of an antialiased kernel, along one axis: taps_for()
  // What the smallest of some grids needs.
  int taps_for(std::span<const TowerPicture> pictures) const;
};

// Adds a picture's rows to a layout: all of it is in the order of the rows.
class LayoutMaker {
 public:
  explicit LayoutMaker(int side = 1) : side_(side) {}

  // The rows of one tile or frame, with a row of its own before them if `own_row`; they see one another.
  void add_grid(int height, int width, bool own_row = false, int frame = 0);
  // Blend number `index` for the rows that were added last: row r of them reads row (or rows) of the table.
  void blend_own_row(int index);   // row 0 for the row of its own, nothing for the others
  void blend_in_order(int index);  // row r for the r-th
  void blend_table(int index, const TableReading& how);
  // Groups of side x side patches that lie in a square, for map number `index`; `side` 1: the patches without the own row.
  void map_squares(int index, int side);
  // The last so many grids see one another.
  void join_grids(int count);
  // The picture's rows are complete: so many features come of it.
  void end_picture(int features) { layout.features.push_back(features); }

  TowerLayout layout;

 private:
  BlendedRows& blend(int index, int count);
  std::vector<std::int32_t>& map(int index);
  int row_of(int y, int x) const;

  int side_;
  int patch_ = 0, first_ = 0, height_ = 0, width_ = 0;
  bool own_row_ = false;
};

// Qwen2.5's windows: rows (in blocks of merge x merge) are put in the order of windows of `window` x `window` blocks.
// Gives for each block the row of blocks where it went.
void order_by_windows(TowerLayout& layout, std::span<const TowerPicture> pictures, int merge, int window);

// Patches in grids of any size, and nothing else.
struct GridLayout {
  int blocks = 1;  // patches come block by block of so many a side
  int merge = 1;   // map 0: squares of so many a side
  std::optional<TableReading> table = {};
  bool frames_together = false;  // all frames of a picture see one another
};
TowerLayout grid_layout(std::span<const TowerPicture> pictures, const GridLayout& how);
// Tiles of the same grid, each by itself: map 0 has squares of `merge` a side; blend 0 the table's rows in order, with
// `own_row` one more for a class token, whose own is blend 1.
TowerLayout tile_layout(std::span<const TowerPicture> pictures, int merge, bool own_row = false);

// Where tokens of a prompt stand: text one behind the other on all axes; a picture's rows in its grid from the next place
// on, text goes on behind its longer side.
AxisPlan axis_positions(std::int64_t tokens, std::span<const PicturePlace> pictures);
// The same with so many places on the axis of time for each second of a film.
AxisPlan axis_positions_in_time(std::int64_t tokens, std::span<const PicturePlace> pictures, double per_second);

}  // namespace espalier
