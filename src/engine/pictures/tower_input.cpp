#include "engine/pictures/tower_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/towers/tower_batch.h"

namespace espalier {
namespace {

Error wrong_form(std::string_view what) {
  return bad_request(fmt::format("the pixels of a picture do not fit this model's tower: {}", what), "image_data");
}

// The number of floats is what the tower asks for: else nothing may point into them.
Result<> check_form(const TowerPicture& picture, const TowerSpec& tower) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // patches, of a side and in all
  if (picture.frames < 1 || picture.height < 1 || picture.width < 1 || picture.tiles < 1)
    return wrong_form("it has no patches");
  if (tower.most_frames > 0 && picture.frames > tower.most_frames)
    return wrong_form(fmt::format("{} frames at once, where {} are the most", picture.frames, tower.most_frames));
  if (std::int64_t{picture.height} * picture.width > kMost || std::int64_t{picture.frames} * picture.tiles > kMost)
    return wrong_form("it has too many patches");
  if (tower.side > 0 && (picture.height != tower.side || picture.width != tower.side))
    return wrong_form(
        fmt::format("{} x {} patches instead of {} x {}", picture.height, picture.width, tower.side, tower.side));
  if (picture.height % tower.merge != 0 || picture.width % tower.merge != 0)
    return wrong_form(
        fmt::format("{} x {} patches are not multiples of {}", picture.height, picture.width, tower.merge));
  if (const std::int64_t wanted = pixel_values(picture, tower); std::cmp_not_equal(picture.pixels.size(), wanted))
    return wrong_form(fmt::format("{} values instead of {}", picture.pixels.size(), wanted));
  return success();
}

// Planes [tiles][channels][height][width], or patches of a grid.
Result<TowerPicture> whole_picture(const pictures::PixelBlock& block, const TowerSpec& tower) {
  TowerPicture picture;
  picture.pixels = block.values;
  picture.original_height = block.original.height;
  picture.original_width = block.original.width;
  if (tower.planes == 0) {
    picture.frames = block.grid.time;
    picture.height = block.grid.height;
    picture.width = block.grid.width;
  } else {
    if (block.shape.size() != 4 || block.shape[1] != tower.planes) return wrong_form("they are no planes of channels");
    for (const std::int64_t side : block.shape)
      if (side < 1 || side > (1 << 20)) return wrong_form("a side is out of range");
    picture.tiles = static_cast<int>(block.shape[0]);
    picture.plane_height = static_cast<int>(block.shape[2]);
    picture.plane_width = static_cast<int>(block.shape[3]);
    if (tower.tiles && block.grid.time > 0) {
      picture.film = true;
      picture.frames = std::exchange(picture.tiles, 1);
    }
    picture.height = static_cast<int>(block.shape[2] / tower.patch);
    picture.width = static_cast<int>(block.shape[3] / tower.patch);
  }
  return picture;
}

// A film in parts of so many frames.
std::vector<TowerPicture> parts_of(const TowerPicture& film, int frames) {
  std::vector<TowerPicture> parts;
  const std::size_t values = film.pixels.size() / static_cast<std::size_t>(std::max(1, film.frames));
  for (int first = 0; first < film.frames; first += frames) {
    parts.push_back(film);
    parts.back().frames = std::min(frames, film.frames - first);
    parts.back().pixels = film.pixels.subspan(static_cast<std::size_t>(first) * values,
                                              static_cast<std::size_t>(parts.back().frames) * values);
  }
  return parts;
}

std::vector<TowerPicture> tiles_of(const TowerPicture& picture) {
  std::vector<TowerPicture> tiles;
  const std::size_t values = picture.pixels.size() / static_cast<std::size_t>(picture.tiles);
  for (int i = 0; i < picture.tiles; ++i) {
    tiles.push_back(picture);
    tiles.back().tiles = 1;
    tiles.back().pixels = picture.pixels.subspan(static_cast<std::size_t>(i) * values, values);
  }
  return tiles;
}

// Tiles of several sizes, one behind the other.
Result<std::vector<TowerPicture>> tiles_in_grids(const pictures::PixelBlock& block, const TowerSpec& tower) {
  std::vector<TowerPicture> tiles;
  std::span<const float> left = block.values;
  for (const pictures::Size& grid : block.tile_grids) {
    TowerPicture tile;
    tile.height = grid.height;
    tile.width = grid.width;
    tile.original_height = block.original.height;
    tile.original_width = block.original.width;
    const std::int64_t values = tile.patches() * tower.patch_width;
    if (values < 1 || std::cmp_greater(values, left.size())) return wrong_form("its tiles have more than its pixels");
    tile.pixels = left.first(static_cast<std::size_t>(values));
    left = left.subspan(static_cast<std::size_t>(values));
    ESP_CHECK(check_form(tile, tower));
    tiles.push_back(tile);
  }
  if (!left.empty()) return wrong_form("its tiles have fewer than its pixels");
  return tiles;
}

Error wrong_rows(int tokens, int rows) {
  return bad_request(fmt::format("a picture has {} image tokens in the prompt, but gives {} rows", tokens, rows),
                     "image_data");
}

int rows_of_all(std::span<const TowerPicture> pictures, const TowerSpec& tower) {
  return std::accumulate(pictures.begin(), pictures.end(), 0,
                         [&](int sum, const TowerPicture& p) { return sum + tower_rows(p, tower).given; });
}

}  // namespace

TowerRows tower_rows(const TowerPicture& picture, const TowerSpec& tower) {
  const TowerLayout layout = tower.layout({&picture, 1});
  return {layout.features.at(0), TowerBatch::rows_of(layout)};
}

Result<std::vector<TowerPicture>> tower_input(const pictures::PixelBlock& block, const TowerSpec& tower, int rows) {
  if (!block.tile_grids.empty()) {
    ESP_TRY(std::vector<TowerPicture> tiles, tiles_in_grids(block, tower));
    if (const int given = rows_of_all(tiles, tower); given != rows) return wrong_rows(rows, given);
    return tiles;
  }
  ESP_TRY(const TowerPicture picture, whole_picture(block, tower));
  if (block.film_part > 0) {
    std::vector<TowerPicture> parts = parts_of(picture, block.film_part);
    for (const TowerPicture& part : parts) ESP_CHECK(check_form(part, tower));
    if (const int given = rows_of_all(parts, tower); given != rows || parts.empty()) return wrong_rows(rows, given);
    return parts;
  }
  ESP_CHECK(check_form(picture, tower));
  const bool tiles_fit = !tower.tiles || tower.tiles(picture) == picture.tiles;
  const int together = tiles_fit ? tower_rows(picture, tower).given : 0;
  if (tiles_fit && together == rows) return std::vector<TowerPicture>{picture};
  if (std::vector<TowerPicture> apart = tiles_of(picture);
      !tower.tiles && picture.tiles > 1 && rows_of_all(apart, tower) == rows)
    return apart;
  return wrong_rows(rows, together);
}

}  // namespace espalier
