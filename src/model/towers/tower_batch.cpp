#include "model/towers/tower_batch.h"

#include <algorithm>
#include <numeric>

#include "model/executor.h"

namespace espalier {

Result<> TowerPool::hold(const Keeps& keeps, KvType type, int rows, Backend& backend) {
  if (rows > slots_) {
    const auto segments = static_cast<std::size_t>((rows + kSegmentSlots - 1) / kSegmentSlots);
    memory_.clear();
    layers_.clear();
    for (const TokenField& field : keeps.per_token) {
      const std::size_t key = head_bytes(type, field.key_dim), value = head_bytes(type, field.value_dim),
                        segment = std::max(key, value) * static_cast<std::size_t>(field.heads);
      ESP_TRY(auto keys, backend.room(segment * segments));
      ESP_TRY(auto values, backend.room(segment * segments));
      layers_.push_back({type, keys.get(), values.get(), nullptr, nullptr, key, value, segment, 0});
      memory_.push_back(std::move(keys));
      memory_.push_back(std::move(values));
    }
    slots_ = static_cast<int>(segments) * kSegmentSlots;
  }
  view_.layers = layers_;
  return success();
}

namespace {

std::int64_t plane_height(const TowerPicture& picture, const TowerSpec& spec) {
  return std::max(std::int64_t{picture.plane_height}, std::int64_t{picture.height} * spec.patch);
}

std::int64_t plane_width(const TowerPicture& picture, const TowerSpec& spec) {
  return std::max(std::int64_t{picture.plane_width}, std::int64_t{picture.width} * spec.patch);
}

}  // namespace

std::int64_t pixel_values(const TowerPicture& picture, const TowerSpec& spec) {
  if (spec.planes == 0) return picture.patches() * spec.patch_width;
  return std::int64_t{picture.frames} * picture.tiles * spec.planes * plane_height(picture, spec) *
         plane_width(picture, spec);
}

int TowerBatch::rows_of(const TowerLayout& layout) {
  return std::max(layout.rows(), std::accumulate(layout.features.begin(), layout.features.end(), 0));
}

TowerBatch::TowerBatch(const TowerSpec& spec, std::span<const TowerPicture> pictures, TowerLayout layout)
    : spec_(spec), layout_(std::move(layout)) {
  if (spec_.planes > 0) cut_planes(pictures);
  bring_patches(pictures);
  const auto rows = layout_.patches.size();
  tokens_.assign(rows, 0);
  slots_.resize(rows);
  std::iota(slots_.begin(), slots_.end(), 0);
  zeros_.assign(rows, 0);
  last_.resize(3 * rows);
  runs_.reserve(layout_.spans.size() + layout_.windows.size() + layout_.merged.size());
  spans_ = sequences(layout_.spans, 0);
  windows_ = sequences(layout_.windows, 1);
  merged_ = sequences(layout_.merged, 2);
  for (const BlendedRows& blend : layout_.blends) blends_.push_back({blend.count, blend.rows, blend.weights});
  for (const auto& map : layout_.maps) maps_.push_back(map);
  make_outputs();
  rows_ = {blends_, maps_, windows_, merged_, output_places_};
  inputs_[0] = given_;
  batch_ = {tokens_, slots_, spans_, {}};
  batch_.given = inputs_;
  batch_.pictures = &rows_;
}

// Patches of planes, in raster order, each [channels][patch][patch]. Pixels beyond the last whole patch are read by none.
void TowerBatch::cut_planes(std::span<const TowerPicture> pictures) {
  const std::int64_t size = spec_.patch;
  for (const TowerPicture& picture : pictures) {
    const std::int64_t width = plane_width(picture, spec_), plane = plane_height(picture, spec_) * width;
    const float* tile = picture.pixels.data();
    for (int t = 0; t < picture.tiles * picture.frames; ++t, tile += spec_.planes * plane)
      for (std::int64_t y = 0; y < picture.height; ++y)
        for (std::int64_t x = 0; x < picture.width; ++x)
          for (std::int64_t line = 0; line < spec_.planes * size; ++line) {
            const float* from = tile + line / size * plane + (y * size + line % size) * width + x * size;
            cut_.insert(cut_.end(), from, from + size);
          }
  }
}

void TowerBatch::bring_patches(std::span<const TowerPicture> pictures) {
  std::vector<const float*> all;
  const float* cut = cut_.data();
  for (const TowerPicture& picture : pictures) {
    const float* from = spec_.planes > 0 ? cut : picture.pixels.data();
    for (std::int64_t i = 0; i < picture.patches(); ++i) all.push_back(from + i * spec_.patch_width);
    cut += picture.patches() * spec_.patch_width;
  }
  for (const std::int32_t patch : layout_.patches)
    given_.push_back(patch < 0 ? nullptr : all[static_cast<std::size_t>(patch)]);
}

// Every row sees from the first to the last of its span, in the slots of its rows.
std::vector<BatchSequence> TowerBatch::sequences(std::span<const RowSpan> spans, int list) {
  const std::size_t first = static_cast<std::size_t>(list) * layout_.patches.size();
  std::vector<BatchSequence> made;
  for (const RowSpan& span : spans) {
    const auto begin = static_cast<std::size_t>(span.begin), rows = static_cast<std::size_t>(span.rows);
    runs_.push_back({static_cast<Slot>(span.begin), span.rows});
    std::fill_n(last_.begin() + static_cast<std::ptrdiff_t>(first + begin), rows, span.rows - 1);
    BatchSequence& s = made.emplace_back(BatchSequence{span.begin, span.rows, 0, {&runs_.back(), 1}});
    if (!layout_.axes.empty() && list < 2) s.axes = std::span(layout_.axes).subspan(begin, rows);
    s.span_first = std::span(zeros_).subspan(begin, rows);
    s.span_last = std::span(last_).subspan(first + begin, rows);
  }
  return made;
}

void TowerBatch::make_outputs() {
  const auto rows = static_cast<std::size_t>(std::accumulate(layout_.features.begin(), layout_.features.end(), 0));
  outputs_.assign(1 + static_cast<std::size_t>(spec_.deep_outputs),
                  std::vector<float>(rows * static_cast<std::size_t>(spec_.features_width)));
  for (auto& output : outputs_) output_places_.push_back(output.data());
}

std::vector<PictureFeatures> TowerBatch::features() {
  std::vector<PictureFeatures> made;
  std::ptrdiff_t at = 0;
  for (const int rows : layout_.features) {
    PictureFeatures& picture = made.emplace_back(PictureFeatures{rows, spec_.features_width, {}});
    const std::ptrdiff_t floats = std::ptrdiff_t{rows} * spec_.features_width;
    for (const auto& output : outputs_) picture.outputs.emplace_back(output.begin() + at, output.begin() + at + floats);
    at += floats;
  }
  return made;
}

}  // namespace espalier
