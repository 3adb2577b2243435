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
  for (const auto kernel : {TableReading::Kernel::linear, TableReading::Kernel::cubic}) {
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

TEST(Layout, WindowsTakeTheirRowsTogetherAndTheMapLeadsBack) {
  Picture picture;
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
