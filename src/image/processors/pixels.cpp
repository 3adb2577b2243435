#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

float stepwise(const CommonSettings& settings, std::size_t colour, int byte) {
  auto value = static_cast<float>(byte);
  if (settings.rescale) value = static_cast<float>(static_cast<double>(byte) * settings.rescale_factor);
  if (!settings.normalize) return value;
  return (value - static_cast<float>(settings.mean[colour])) / static_cast<float>(settings.std[colour]);
}

float folded(const CommonSettings& settings, std::size_t colour, int byte) {
  auto value = static_cast<float>(byte);
  if (!settings.normalize) return settings.rescale ? value * static_cast<float>(settings.rescale_factor) : value;
  auto mean = static_cast<float>(settings.mean[colour]), std = static_cast<float>(settings.std[colour]);
  if (settings.rescale) {
    auto factor = static_cast<float>(1.0 / settings.rescale_factor);
    mean *= factor;
    std *= factor;
  }
  return (value - mean) / std;
}

// One patch of all pictures.
void append_patch(std::span<const Picture* const> pictures, const ByteTable& table, const PatchForm& form, int left,
                  int top, std::vector<float>& to) {
  if (form.colour_last) {
    for (int y = 0; y < form.side; ++y) {
      const std::uint8_t* row = pictures[0]->row(top + y) + static_cast<std::ptrdiff_t>(left) * 3;
      for (int i = 0; i < form.side * 3; ++i) to.push_back(table(static_cast<std::size_t>(i % 3), row[i]));
    }
    return;
  }
  for (std::size_t colour = 0; colour < 3; ++colour) {
    for (const Picture* picture : pictures) {
      for (int y = 0; y < form.side; ++y) {
        const std::uint8_t* row = picture->row(top + y) + static_cast<std::ptrdiff_t>(left) * 3 + colour;
        for (int x = 0; x < form.side; ++x) to.push_back(table(colour, row[3 * x]));
      }
    }
  }
}

}  // namespace

ByteTable::ByteTable(const CommonSettings& settings) {
  for (std::size_t colour = 0; colour < 3; ++colour) {
    for (int byte = 0; byte < 256; ++byte) {
      values_[colour][static_cast<std::size_t>(byte)] = settings.arithmetic == Arithmetic::stepwise
                                                            ? stepwise(settings, colour, byte)
                                                            : folded(settings, colour, byte);
    }
  }
}

void append_planes(const Picture& picture, const ByteTable& table, std::vector<float>& to) {
  to.reserve(to.size() + picture.rgb.size());
  for (std::size_t colour = 0; colour < 3; ++colour) {
    for (std::size_t i = colour; i < picture.rgb.size(); i += 3) to.push_back(table(colour, picture.rgb[i]));
  }
}

void append_patches(std::span<const Picture* const> pictures, const ByteTable& table, const PatchForm& form,
                    std::vector<float>& to) {
  const Picture& first = *pictures[0];
  to.reserve(to.size() + first.rgb.size() * pictures.size());
  int step = form.side * form.merge;
  for (int top = 0; top + step <= first.height; top += step) {
    for (int left = 0; left + step <= first.width; left += step) {
      for (int i = 0; i < form.merge * form.merge; ++i) {
        append_patch(pictures, table, form, left + i % form.merge * form.side, top + i / form.merge * form.side, to);
      }
    }
  }
}

PixelBlock tile_block(std::span<const Picture> tiles, const ByteTable& table, const PatchForm& form, Size grid) {
  PixelBlock block;
  std::int64_t patches = 0;
  for (const Picture& tile : tiles) {
    append_patches(tile, table, form, block.values);
    block.tile_grids.push_back({tile.height / form.side, tile.width / form.side});
    patches += static_cast<std::int64_t>(block.tile_grids.back().height) * block.tile_grids.back().width;
  }
  block.shape = {patches, 3, form.side, form.side};
  block.tiles = static_cast<int>(tiles.size());
  block.rows = grid.height;
  block.columns = grid.width;
  return block;
}

}  // namespace espalier::pictures
