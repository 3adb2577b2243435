// How rows of pictures lie in a batch, by small grids.
#include "model/towers/layout.h"

#include <gtest/gtest.h>

namespace espalier::layout_test {
namespace {

std::vector<std::pair<int, int>> pairs(const std::vector<PatchPlace>& places) {
  std::vector<std::pair<int, int>> out;
  for (const PatchPlace& place : places) out.emplace_back(place.y, place.x);
  return out;
}

TEST(Layout, PatchesComeLineByLineOrInBlocks) {
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(pairs(patch_places(2, 2)), (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(pairs(patch_places(2, 4, 2)), (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}}));
}

TEST(Layout, SquaresLeaveTheOwnRowOut) {
  LayoutMaker maker;
  maker.add_grid(2, 2, true);
  maker.map_squares(0, 2);
  maker.add_grid(2, 2, true);
  maker.map_squares(0, 2);
  EXPECT_EQ(maker.layout.patches, (std::vector<std::int32_t>{-1, 0, 1, 2, 3, -1, 4, 5, 6, 7}));
  EXPECT_EQ(maker.layout.maps[0], (std::vector<std::int32_t>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(maker.layout.spans, (std::vector<RowSpan>{{0, 5}, {5, 5}}));
}

TEST(Layout, TablesOfTheGridsSizeAreReadAsTheyStand) {
  for (const auto kernel :
       {TableReading::Kernel::linear, TableReading::Kernel::cubic, TableReading::Kernel::antialiased}) {
    LayoutMaker maker;
    maker.add_grid(3, 3);
    maker.blend_table(0, {.side = 3, .kernel = kernel});
    const BlendedRows& blend = maker.layout.blends[0];
    for (int row = 0; row < 9; ++row) {
      float sum = 0, own = 0;
      for (int i = row * blend.count; i < (row + 1) * blend.count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        sum += blend.weights[at];
        if (blend.rows[at] == row) own += blend.weights[at];
      }
      EXPECT_FLOAT_EQ(sum, 1.0f);
      EXPECT_FLOAT_EQ(own, 1.0f);
    }
  }
}

// The weights of F.interpolate(mode="bilinear", antialias=True) from 4 to 2: a triangle of twice the width.
TEST(Layout, TablesThatShrinkAreReadOverMoreRows) {
  TowerPicture picture;
  picture.height = picture.width = 2;
  TableReading how{.side = 4, .kernel = TableReading::Kernel::antialiased};
  how.taps = how.taps_for({&picture, 1});
  EXPECT_EQ(how.taps, 4);
  LayoutMaker maker;
  maker.add_grid(2, 2);
  maker.blend_table(0, how);
  const BlendedRows& blend = maker.layout.blends[0];
  std::vector<float> weights(16, 0.0f);  // of the table, for the first row
  for (std::size_t i = 0; i < 16; ++i) weights[static_cast<std::size_t>(blend.rows[i])] += blend.weights[i];
  const float near = 0.75f / 1.75f, far = 0.25f / 1.75f;
  const float line[] = {near, near, far, 0.0f};
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t x = 0; x < 4; ++x) EXPECT_FLOAT_EQ(weights[y * 4 + x], line[y] * line[x]) << y << " " << x;
}

TEST(Layout, FramesSeeOneAnotherWhereTheyShall) {
  TowerPicture picture;
  picture.frames = 3;
  picture.height = picture.width = 2;
  const TowerPicture both[] = {picture, picture};
  EXPECT_EQ(grid_layout(both, {.merge = 2}).spans,
            (std::vector<RowSpan>{{0, 4}, {4, 4}, {8, 4}, {12, 4}, {16, 4}, {20, 4}}));
  const TowerLayout layout = grid_layout(both, {.merge = 2, .frames_together = true});
  EXPECT_EQ(layout.spans, (std::vector<RowSpan>{{0, 12}, {12, 12}}));
  EXPECT_EQ(layout.features, (std::vector<int>{3, 3}));
  EXPECT_EQ(layout.axes[11], (AxisPositions{2, 1, 1}));
}

TEST(Layout, WindowsTakeTheirRowsTogetherAndTheMapLeadsBack) {
  TowerPicture picture;
  picture.height = 4;
  picture.width = 6;
  LayoutMaker maker(2);
  maker.add_grid(4, 6);
  TowerLayout layout = std::move(maker.layout);
  order_by_windows(layout, {&picture, 1}, 2, 2);
  // Blocks 0 1 2 / 3 4 5; windows of 2 x 2 blocks: 0 1 3 4, then 2 5.
  EXPECT_EQ(layout.windows, (std::vector<RowSpan>{{0, 16}, {16, 8}}));
  EXPECT_EQ(layout.maps.back(), (std::vector<std::int32_t>{0, 1, 4, 2, 3, 5}));
  EXPECT_EQ(layout.patches[8], 12);
  EXPECT_EQ(layout.patches[16], 8);
}

TEST(Layout, TextGoesOnBehindAPicturesGreatestPlace) {
  const PicturePlace picture{.first = 2, .frames = 1, .height = 2, .width = 3};
  const AxisPlan plan = axis_positions(10, {&picture, 1});
  ASSERT_EQ(plan.axes.size(), 10u);
  EXPECT_EQ(plan.axes[1], (AxisPositions{1, 1, 1}));
  EXPECT_EQ(plan.axes[2], (AxisPositions{2, 2, 2}));
  EXPECT_EQ(plan.axes[7], (AxisPositions{2, 3, 4}));
  EXPECT_EQ(plan.axes[8], (AxisPositions{5, 5, 5}));
  EXPECT_EQ(plan.shift, -3);
}

}  // namespace
}  // namespace espalier::layout_test
