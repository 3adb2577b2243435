// tower_golden.h: goldens of image-and-text models, their pictures as a tower takes them; for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/towers/table.h"
#include "model/towers/tower.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::testing {

// Some pictures and the floats that they point into.
struct Pictures {
  std::vector<float> pixels;
  std::vector<TowerPicture> pictures;
};

// A golden's folder, its configuration and its tower.
class TowerGolden {
 public:
  explicit TowerGolden(const std::string& name) : folder(golden("models/" + name)) {
    const std::string text = read_file(folder / "config.json");
    config = nlohmann::json::parse(text);
    json = nlohmann::json::parse(read_file(folder / "golden.json"));
    tensors = SafetensorsFile::open(folder / "tensors.safetensors").value();
    file.emplace(SafetensorsFile::open_folder(folder).value());
    weights.emplace(*file, Naming::hf);
    auto read = read_tower_config(text);
    if (read.ok() && *read)
      spec = std::move(**read);
    else
      refusal = read.ok() ? "no tower" : read.error().message;
  }

  std::unique_ptr<Tower> tower(Activations mode, Backend* backend = nullptr) {
    auto made = Tower::load(*spec, *weights, {mode, 4096, backend}, team);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }
  std::unique_ptr<Decoder> decoder(Activations mode) {
    auto text = load_hf_config(folder);
    EXPECT_TRUE(text.ok()) << text.error().message;
    if (!text.ok()) return nullptr;
    auto made = Decoder::load(text->spec, *weights, {mode, 512}, team);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }

  bool has_experts() const { return config.dump().find("experts") != std::string::npos; }
  const Tensor* tensor(const std::string& name) const { return tensors->find(name); }
  std::vector<float> floats(const std::string& name) const { return decode(*tensor(name)); }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const Tensor* t = tensor(name);
    std::vector<std::int64_t> out(t->data.size() / sizeof(std::int64_t));
    std::memcpy(out.data(), t->data.data(), t->data.size());
    return out;
  }
  Pictures pictures(const std::string& of) const;

  std::filesystem::path folder;
  nlohmann::json config, json;
  std::optional<SafetensorsFile> tensors, file;
  std::optional<Weights> weights;
  std::optional<TowerSpec> spec;
  std::string refusal;
  ComputeTeam team{2};

 private:
  void add_grids(const std::string& of, Pictures& to) const;
  void add_padded(const std::string& of, const Shape& shape, Pictures& to) const;
  void add_strip(const std::string& of, const Shape& shape, Pictures& to) const;
  void add_planes(const std::string& of, const Shape& shape, Pictures& to) const;
  TowerPicture cropped(TowerPicture p, std::int64_t from, std::int64_t height, std::int64_t width, Pictures& to) const;
};

// Patches by a list of grids.
inline void TowerGolden::add_grids(const std::string& of, Pictures& to) const {
  const auto grids = integers(of + ".image_grid_thw");
  const float* at = to.pixels.data();
  for (std::size_t i = 0; i < grids.size(); i += 3) {
    TowerPicture p;
    p.frames = static_cast<int>(grids[i]);
    p.height = static_cast<int>(grids[i + 1]);
    p.width = static_cast<int>(grids[i + 2]);
    p.pixels = {at, static_cast<std::size_t>(p.patches() * spec->patch_width)};
    at += p.pixels.size();
    to.pictures.push_back(p);
  }
}

// Patches that were padded to the same number; sizes are told, or the places of patches as (x, y).
inline void TowerGolden::add_padded(const std::string& of, const Shape& shape, Pictures& to) const {
  const std::int64_t each = shape[1] * shape[2];
  const Tensor* sizes = tensor(of + ".spatial_shapes");
  const auto numbers = integers(of + (sizes != nullptr ? ".spatial_shapes" : ".image_position_ids"));
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    const auto own =
        std::span(numbers).subspan(static_cast<std::size_t>(i) * numbers.size() / static_cast<std::size_t>(shape[0]),
                                   numbers.size() / static_cast<std::size_t>(shape[0]));
    TowerPicture p;
    p.height = sizes != nullptr ? static_cast<int>(own[0]) : 0;
    p.width = sizes != nullptr ? static_cast<int>(own[1]) : 0;
    for (std::size_t at = 0; sizes == nullptr && at < own.size(); at += 2) {
      p.width = std::max(p.width, static_cast<int>(own[at] + 1));
      p.height = std::max(p.height, static_cast<int>(own[at + 1] + 1));
    }
    p.pixels = {to.pixels.data() + i * each, static_cast<std::size_t>(p.patches() * shape[2])};
    to.pictures.push_back(p);
  }
}

// Patches one behind the other in one strip [channels][patch][all patches' width].
inline void TowerGolden::add_strip(const std::string& of, const Shape& shape, Pictures& to) const {
  const Tensor& sizes = *tensor(of + ".target_sizes");
  std::vector<std::int32_t> numbers(sizes.data.size() / sizeof(std::int32_t));
  std::memcpy(numbers.data(), sizes.data.data(), sizes.data.size());
  const std::int64_t side = shape[2], width = shape[3];
  std::vector<float> patches;
  for (std::int64_t patch = 0; patch < width / side; ++patch)
    for (std::int64_t line = 0; line < shape[1] * side; ++line) {
      const float* from = to.pixels.data() + line * width + patch * side;
      patches.insert(patches.end(), from, from + side);
    }
  to.pixels = std::move(patches);
  const float* at = to.pixels.data();
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    TowerPicture p;
    p.height = numbers[i];
    p.width = numbers[i + 1];
    p.pixels = {at, static_cast<std::size_t>(p.patches() * spec->patch_width)};
    at += p.pixels.size();
    to.pictures.push_back(p);
  }
}

// Planes: a picture each, but where a list of sizes gives fewer pictures than there are planes: tiles of these.
inline void TowerGolden::add_planes(const std::string& of, const Shape& shape, Pictures& to) const {
  const std::int64_t height = shape[shape.size() - 2], width = shape.back(), plane = 3 * height * width;
  const auto pixels = static_cast<std::int64_t>(to.pixels.size());
  to.pixels.reserve(static_cast<std::size_t>(2 * pixels));
  const bool sized = tensor(of + ".image_sizes") != nullptr;
  const auto sizes = sized ? integers(of + ".image_sizes") : std::vector<std::int64_t>();
  const std::int64_t all = pixels / plane;
  const std::int64_t count = sized && shape.size() == 5 ? shape[0] : all;
  for (std::int64_t i = 0; i < count; ++i) {
    TowerPicture p;
    p.height = static_cast<int>(height / spec->patch);
    p.width = static_cast<int>(width / spec->patch);
    p.tiles = static_cast<int>(all / count);
    if (sized) {
      p.original_height = static_cast<int>(sizes[static_cast<std::size_t>(2 * i)]);
      p.original_width = static_cast<int>(sizes[static_cast<std::size_t>(2 * i + 1)]);
    }
    if (spec->tiles) p.tiles = spec->tiles(p);
    if (sized && shape.size() == 4) {
      to.pictures.push_back(cropped(p, i * plane, height, width, to));
      continue;
    }
    const float* at = to.pixels.data() + i * (all / count) * plane;
    p.pixels = {at, static_cast<std::size_t>(p.tiles * plane)};
    to.pictures.push_back(p);
  }
}

// A picture without the padding that its batch gave it. Pixels are appended: room for them was made before.
inline TowerPicture TowerGolden::cropped(TowerPicture p, std::int64_t from, std::int64_t height, std::int64_t width,
                                         Pictures& to) const {
  const std::size_t begin = to.pixels.size();
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < p.original_height; ++y)
      for (std::int64_t x = 0; x < p.original_width; ++x)
        to.pixels.push_back(to.pixels[static_cast<std::size_t>(from + (c * height + y) * width + x)]);
  p.height = p.original_height / spec->patch;
  p.width = p.original_width / spec->patch;
  p.pixels = std::span(to.pixels).subspan(begin);
  return p;
}

inline Pictures TowerGolden::pictures(const std::string& of) const {
  Pictures made;
  const Tensor* pixels = tensor(of + ".pixel_values");
  if (pixels == nullptr) return made;
  made.pixels = decode(*pixels);
  if (tensor(of + ".image_grid_thw") != nullptr)
    add_grids(of, made);
  else if (tensor(of + ".spatial_shapes") != nullptr || tensor(of + ".image_position_ids") != nullptr)
    add_padded(of, pixels->shape, made);
  else if (tensor(of + ".target_sizes") != nullptr)
    add_strip(of, pixels->shape, made);
  else
    add_planes(of, pixels->shape, made);
  return made;
}

inline std::vector<PictureFeatures> run(Tower& tower, std::span<const TowerPicture> pictures, int stages = 1 << 20) {
  const auto begun = tower.begin(pictures);
  EXPECT_TRUE(begun.ok()) << begun.error().message;
  if (!begun.ok()) return {};
  while (!tower.advance(stages)) {
  }
  return tower.take();
}

}  // namespace espalier::testing
