#include "image/processors/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

constexpr int longest_side = 1 << 16;

// Both a short and a long edge are given: the short one, unless the long one would be exceeded.
Size size_by_edges(Size picture, int shortest, int longest) {
  double short_side = std::min(picture.height, picture.width), long_side = std::max(picture.height, picture.width);
  std::optional<double> exact;
  if (long_side / short_side * shortest > longest) {
    exact = longest * short_side / long_side;
    shortest = rounded(*exact);
  }
  double height = picture.height, width = picture.width;
  if ((picture.height <= picture.width && picture.height == shortest) ||
      (picture.width <= picture.height && picture.width == shortest))
    return picture;
  double edge = exact.value_or(shortest);
  if (picture.width < picture.height) return {static_cast<int>(edge * height / width), shortest};
  return {shortest, static_cast<int>(edge * width / height)};
}

Size size_by_shortest(Size picture, int edge) {
  bool upright = picture.width <= picture.height;
  int short_side = upright ? picture.width : picture.height, long_side = upright ? picture.height : picture.width;
  int other = static_cast<int>(static_cast<double>(static_cast<std::int64_t>(edge) * long_side) / short_side);
  return upright ? Size{other, edge} : Size{edge, other};
}

Result<Size> usable(Size size, Size picture) {
  if (size.height < 1 || size.width < 1 || size.height > longest_side || size.width > longest_side)
    return impossible_size(picture);
  return size;
}

}  // namespace

Error impossible_size(Size picture) {
  return bad_request(fmt::format("the picture of {} x {} pixels is too narrow or too flat for this model",
                                 picture.width, picture.height));
}

Result<Size> size_by_rule(Size picture, const SizeRule& rule) {
  if (rule.shortest_edge && rule.longest_edge)
    return usable(size_by_edges(picture, *rule.shortest_edge, *rule.longest_edge), picture);
  if (rule.shortest_edge) return usable(size_by_shortest(picture, *rule.shortest_edge), picture);
  if (rule.max_height && rule.max_width) {
    double scale = std::min(static_cast<double>(*rule.max_height) / picture.height,
                            static_cast<double>(*rule.max_width) / picture.width);
    return usable({static_cast<int>(picture.height * scale), static_cast<int>(picture.width * scale)}, picture);
  }
  if (rule.height && rule.width) return usable({*rule.height, *rule.width}, picture);
  return bad_file(
      "the picture processor's \"size\" must have a height and a width, a shortest edge, or a largest height and width",
      "size");
}

Result<Size> size_in_budget(Size picture, int factor, const PixelBudget& budget) {
  double height = picture.height, width = picture.width;
  if (std::max(height, width) / std::min(height, width) > 200) return impossible_size(picture);
  std::int64_t down = rounded(height / factor), across = rounded(width / factor);
  std::int64_t together =
      static_cast<std::int64_t>(rounded(static_cast<double>(budget.frames) / budget.together)) * budget.together;
  std::int64_t area = together * down * across * factor * factor;
  if (area > budget.highest) {
    double beta = std::sqrt(budget.frames * height * width / static_cast<double>(budget.highest));
    down = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(height / beta / factor)));
    across = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(width / beta / factor)));
  } else if (area < budget.lowest) {
    double beta = std::sqrt(static_cast<double>(budget.lowest) / (budget.frames * height * width));
    down = static_cast<std::int64_t>(std::ceil(height * beta / factor));
    across = static_cast<std::int64_t>(std::ceil(width * beta / factor));
  }
  return usable({static_cast<int>(std::min<std::int64_t>(down * factor, 1 << 20)),
                 static_cast<int>(std::min<std::int64_t>(across * factor, 1 << 20))},
                picture);
}

Size size_within(Size picture, Size target) {
  double across = static_cast<double>(target.width) / picture.width,
         down = static_cast<double>(target.height) / picture.height;
  if (across < down)
    return {std::min(static_cast<int>(std::ceil(picture.height * across)), target.height), target.width};
  return {target.height, std::min(static_cast<int>(std::ceil(picture.width * down)), target.width)};
}

Size best_resolution(Size picture, std::span<const Size> offered) {
  Size best = offered.front();
  std::int64_t most_kept = 0, least_wasted = std::numeric_limits<std::int64_t>::max();
  for (Size size : offered) {
    double scale =
        std::min(static_cast<double>(size.width) / picture.width, static_cast<double>(size.height) / picture.height);
    std::int64_t width = static_cast<std::int64_t>(picture.width * scale),
                 height = static_cast<std::int64_t>(picture.height * scale);
    std::int64_t kept = std::min(width * height, static_cast<std::int64_t>(picture.width) * picture.height);
    std::int64_t wasted = static_cast<std::int64_t>(size.width) * size.height - kept;
    if (kept > most_kept || (kept == most_kept && wasted < least_wasted)) {
      most_kept = kept;
      least_wasted = wasted;
      best = size;
    }
  }
  return best;
}

std::vector<Size> tile_grids(int lowest, int highest) {
  std::vector<Size> grids;
  for (int width = 1; width <= highest; ++width) {
    for (int height = 1; height <= highest / width; ++height) {
      if (width * height >= lowest) grids.push_back({height, width});
    }
  }
  std::stable_sort(grids.begin(), grids.end(), [](Size a, Size b) { return a.width * a.height < b.width * b.height; });
  return grids;
}

Size nearest_grid(Size picture, std::span<const Size> grids, Size tile) {
  double ratio = static_cast<double>(picture.width) / picture.height, nearest = std::numeric_limits<double>::infinity();
  double area = static_cast<double>(picture.width) * picture.height;
  Size best{1, 1};
  for (Size grid : grids) {
    double distance = std::fabs(ratio - static_cast<double>(grid.width) / grid.height);
    if (distance < nearest) {
      nearest = distance;
      best = grid;
    } else if (distance == nearest && area > 0.5 * tile.height * tile.width * grid.width * grid.height) {
      best = grid;
    }
  }
  return best;
}

Picture squared(const Picture& picture, std::array<std::uint8_t, 3> colour) {
  int side = std::max(picture.width, picture.height);
  if (picture.width == picture.height) return picture;
  return frame(picture, (side - picture.width) / 2, (side - picture.height) / 2, {side, side}, colour);
}

std::vector<Picture> cut(const Picture& picture, Size tile) {
  std::vector<Picture> tiles;
  for (int top = 0; top + tile.height <= picture.height; top += tile.height) {
    for (int left = 0; left + tile.width <= picture.width; left += tile.width)
      tiles.push_back(crop(picture, left, top, tile));
  }
  return tiles;
}

PixelBlock tile_block(std::span<const Picture> tiles, const ByteTable& table) {
  PixelBlock block;
  for (const Picture& tile : tiles) append_planes(tile, table, block.values);
  block.tiles = static_cast<int>(tiles.size());
  block.shape = {block.tiles, 3, tiles[0].height, tiles[0].width};
  return block;
}

}  // namespace espalier::pictures
