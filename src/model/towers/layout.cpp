#include "model/towers/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace espalier {

std::vector<PatchPlace> patch_places(int height, int width, int side) {
  std::vector<PatchPlace> places;
  places.reserve(static_cast<std::size_t>(height) * static_cast<std::size_t>(width));
  for (int y = 0; y < height; y += side)
    for (int x = 0; x < width; x += side)
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j) places.push_back({y + i, x + j});
  return places;
}

// --- learned positions ---

namespace {

struct Tap {
  int at;
  float weight;
};

std::vector<Tap> antialiased_taps(int index, int size, const TableReading& how) {
  const float scale = static_cast<float>(how.side) / static_cast<float>(size), support = std::max(1.0f, scale),
              center = (static_cast<float>(index) + 0.5f) * scale - 0.5f;
  const int first = std::max(0, static_cast<int>(std::floor(center - support)) + 1);
  std::vector<Tap> taps;
  float sum = 0;
  for (int i = 0; i < how.taps; ++i) {
    const float distance = std::abs(static_cast<float>(first + i) - center) / support;
    taps.push_back({std::min(first + i, how.side - 1), first + i < how.side ? std::max(0.0f, 1 - distance) : 0.0f});
    sum += taps.back().weight;
  }
  for (Tap& tap : taps) tap.weight /= sum;
  return taps;
}

// What position `index` of `size` reads along one axis of the table.
std::vector<Tap> taps_of(int index, int size, const TableReading& how) {
  if (how.kernel == TableReading::Kernel::antialiased) return antialiased_taps(index, size, how);
  const auto side = static_cast<float>(how.side), of = static_cast<float>(size), at = static_cast<float>(index);
  const float source = how.corners_meet ? at * (side - 1) / std::max(of - 1, 1.0f) : (at + 0.5f) * side / of - 0.5f;
  const float floor = std::floor(source);
  const bool linear = how.kernel == TableReading::Kernel::linear;
  std::vector<Tap> taps;
  for (int offset = linear ? 0 : -1; offset < (linear ? 2 : 3); ++offset) {
    const float distance = std::abs(source - floor - static_cast<float>(offset));
    constexpr float a = -0.75f;
    float weight = std::max(0.0f, 1 - distance);
    if (!linear)
      weight = distance <= 1 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                             : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
    const int raw = static_cast<int>(floor) + offset;
    if (how.zeros_outside && (raw < 0 || raw >= how.side)) weight = 0;
    taps.push_back({std::clamp(raw, 0, how.side - 1), weight});
  }
  return taps;
}

}  // namespace

int TableReading::taps_for(std::span<const TowerPicture> pictures) const {
  int least = side;
  for (const TowerPicture& picture : pictures) least = std::min({least, picture.height, picture.width});
  return std::max(2, 2 * ((side + least - 1) / std::max(1, least)));
}

// --- rows ---

BlendedRows& LayoutMaker::blend(int index, int count) {
  const auto at = static_cast<std::size_t>(index);
  if (layout.blends.size() <= at) layout.blends.resize(at + 1);
  layout.blends[at].count = count;
  return layout.blends[at];
}

std::vector<std::int32_t>& LayoutMaker::map(int index) {
  const auto at = static_cast<std::size_t>(index);
  if (layout.maps.size() <= at) layout.maps.resize(at + 1);
  return layout.maps[at];
}

void LayoutMaker::add_grid(int height, int width, bool own_row, int frame) {
  first_ = layout.rows();
  height_ = height;
  width_ = width;
  own_row_ = own_row;
  const auto add = [&](int patch, int y, int x) {
    layout.patches.push_back(patch);
    layout.axes.push_back({frame, y, x});
  };
  if (own_row) add(-1, 0, 0);
  for (const PatchPlace& place : patch_places(height, width, side_)) add(patch_++, place.y, place.x);
  layout.spans.push_back({first_, layout.rows() - first_});
}

void LayoutMaker::blend_own_row(int index) {
  BlendedRows& to = blend(index, 1);
  for (int row = first_; row < layout.rows(); ++row) {
    to.rows.push_back(0);
    to.weights.push_back(own_row_ && row == first_ ? 1.0f : 0.0f);
  }
}

void LayoutMaker::blend_in_order(int index) {
  BlendedRows& to = blend(index, 1);
  for (int row = first_; row < layout.rows(); ++row) {
    to.rows.push_back(row - first_);
    to.weights.push_back(1.0f);
  }
}

void LayoutMaker::blend_table(int index, const TableReading& how) {
  int each = how.kernel == TableReading::Kernel::linear ? 2 : 4;
  if (how.kernel == TableReading::Kernel::antialiased) each = how.taps;
  BlendedRows& to = blend(index, each * each);
  const std::size_t taps = static_cast<std::size_t>(each) * static_cast<std::size_t>(each);
  for (int row = first_; row < layout.rows(); ++row) {
    if (own_row_ && row == first_) {
      to.rows.insert(to.rows.end(), taps, 0);
      to.weights.insert(to.weights.end(), taps, 0.0f);
      to.weights[to.weights.size() - taps] = 1.0f;
      continue;
    }
    const AxisPositions& at = layout.axes[static_cast<std::size_t>(row)];
    const std::vector<Tap> across = taps_of(at[2], width_, how);
    for (const Tap& down : taps_of(at[1], height_, how))
      for (const Tap& tap : across) {
        to.rows.push_back(how.first_row + down.at * how.side + tap.at);
        to.weights.push_back(down.weight * tap.weight);
      }
  }
}

int LayoutMaker::row_of(int y, int x) const {
  const int blocks = width_ / side_;
  const int block = y / side_ * blocks + x / side_;
  return first_ + (own_row_ ? 1 : 0) + block * side_ * side_ + y % side_ * side_ + x % side_;
}

void LayoutMaker::map_squares(int index, int side) {
  for (const PatchPlace& place : patch_places(height_ / side * side, width_ / side * side, side))
    map(index).push_back(row_of(place.y, place.x));
}

void LayoutMaker::join_grids(int count) {
  for (; count > 1; --count) {
    const RowSpan last = layout.spans.back();
    layout.spans.pop_back();
    layout.spans.back().rows += last.rows;
  }
}

TowerLayout grid_layout(std::span<const TowerPicture> pictures, const GridLayout& how) {
  LayoutMaker maker(how.blocks);
  for (const TowerPicture& picture : pictures) {
    for (int frame = 0; frame < picture.frames; ++frame) {
      maker.add_grid(picture.height, picture.width, false, frame);
      if (how.table) maker.blend_table(0, *how.table);
      maker.map_squares(0, how.merge);
    }
    if (how.frames_together) maker.join_grids(picture.frames);
    maker.end_picture(picture.frames * (picture.height / how.merge) * (picture.width / how.merge));
  }
  return std::move(maker.layout);
}

TowerLayout tile_layout(std::span<const TowerPicture> pictures, int merge, bool own_row) {
  LayoutMaker maker;
  for (const TowerPicture& picture : pictures) {
    for (int tile = 0; tile < picture.tiles; ++tile) {
      maker.add_grid(picture.height, picture.width, own_row);
      maker.blend_in_order(0);
      if (own_row) maker.blend_own_row(1);
      maker.map_squares(0, merge);
    }
    maker.end_picture(picture.tiles * (picture.height / merge) * (picture.width / merge));
  }
  return std::move(maker.layout);
}

// --- windows ---

namespace {

// The blocks of one frame, window by window; the sizes of these are added to `sizes`.
std::vector<int> blocks_by_window(int height, int width, int window, std::vector<int>& sizes) {
  std::vector<int> order;
  for (int top = 0; top < height; top += window)
    for (int left = 0; left < width; left += window) {
      const auto before = order.size();
      for (int y = top; y < std::min(height, top + window); ++y)
        for (int x = left; x < std::min(width, left + window); ++x) order.push_back(y * width + x);
      sizes.push_back(static_cast<int>(order.size() - before));
    }
  return order;
}

}  // namespace

void order_by_windows(TowerLayout& layout, std::span<const TowerPicture> pictures, int merge, int window) {
  const int unit = merge * merge;
  const auto patches = static_cast<std::size_t>(unit);
  const TowerLayout before = layout;
  std::vector<std::int32_t> back(before.patches.size() / patches);
  int block = 0, row = 0;
  for (const TowerPicture& picture : pictures)
    for (int frame = 0; frame < picture.frames * picture.tiles; ++frame) {
      std::vector<int> sizes;
      const int first = block;
      for (const int from : blocks_by_window(picture.height / merge, picture.width / merge, window, sizes)) {
        const std::size_t of = static_cast<std::size_t>(first) + static_cast<std::size_t>(from),
                          to = static_cast<std::size_t>(block) * patches, at = of * patches;
        back[of] = block;
        for (std::size_t i = 0; i < patches; ++i) {
          layout.patches[to + i] = before.patches[at + i];
          layout.axes[to + i] = before.axes[at + i];
        }
        ++block;
      }
      for (const int size : sizes) {
        layout.windows.push_back({row, size * unit});
        row += size * unit;
      }
    }
  layout.maps.push_back(std::move(back));
}

// --- positions in the text ---

namespace {

// Where a film's frame stands in time, in the reference's arithmetic (float32).
std::int32_t place_in_time(int frame, const PicturePlace& picture, double per_second) {
  if (per_second <= 0 || picture.seconds <= 0) return frame;
  const float step = static_cast<float>(per_second) * static_cast<float>(picture.seconds);
  return static_cast<std::int32_t>(std::min(static_cast<float>(frame) * step, 1e9f));
}

}  // namespace

AxisPlan axis_positions(std::int64_t tokens, std::span<const PicturePlace> pictures) {
  return axis_positions_in_time(tokens, pictures, 0);
}

AxisPlan axis_positions_in_time(std::int64_t tokens, std::span<const PicturePlace> pictures, double per_second) {
  AxisPlan plan;
  std::int32_t next = 0, greatest = -1;
  const auto text_until = [&](std::int64_t end) {
    while (static_cast<std::int64_t>(plan.axes.size()) < end) {
      plan.axes.push_back({next, next, next});
      greatest = std::max(greatest, next++);
    }
  };
  for (const PicturePlace& picture : pictures) {
    text_until(picture.first);
    for (int t = 0; t < picture.frames; ++t)
      for (int y = 0; y < picture.height; ++y)
        for (int x = 0; x < picture.width; ++x) {
          const AxisPositions at = {next + place_in_time(t, picture, per_second), next + y, next + x};
          plan.axes.push_back(at);
          greatest = std::max(greatest, std::ranges::max(at));
        }
    next += std::max(picture.height, picture.width);
  }
  text_until(tokens);
  plan.shift = std::int64_t{greatest} + 1 - tokens;
  return plan;
}

}  // namespace espalier
