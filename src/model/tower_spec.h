// tower_spec.h: what a vision tower with its projector declares: how patches become rows, its layers, and what becomes of
// them; and how the rows of pictures lie beside one another.
//
// A row is a patch (or a class token). A tower is built of the same blocks as a text model (spec.h). Numbers that an
// operation reads of a batch (batch.h: PictureRows) are those of its TowerLayout, in the same order.
// Threads: values; layouts are pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/batch.h"
#include "model/spec.h"

namespace espalier {

// One picture, as a processor gives it: patches, or (TowerSpec::planes) planes that are cut here.
struct TowerPicture {
  std::span<const float> pixels;          // [frames][tiles] of [patches][patch_width] or of [channels][height][width]
  int frames = 1, height = 0, width = 0;  // of a tile's grid of patches
  int tiles = 1;                          // of any-resolution processors: the whole picture in small, then its tiles
  int original_height = 0, original_width = 0;  // in pixels, where tiles were padded
  int plane_height = 0, plane_width = 0;        // in pixels, where patches do not reach the end; 0: they do
  bool film = false;                            // frames of one, for towers that make other rows of these
  std::int64_t patches() const { return std::int64_t{frames} * tiles * height * width; }
};

struct TowerSpec;
// The floats that a picture's pixels must be.
std::int64_t pixel_values(const TowerPicture& picture, const TowerSpec& spec);

// Rows that see one another.
struct RowSpan {
  int begin = 0, rows = 0;
  bool operator==(const RowSpan&) const = default;
};

// Rows of a learned table, `count` for each row.
struct BlendedRows {
  int count = 1;
  std::vector<std::int32_t> rows;
  std::vector<float> weights;
};

// Where a picture's tokens stand in a prompt, and its grid there.
struct PicturePlace {
  std::int64_t first = 0;  // its first token
  int frames = 1, height = 1, width = 1;
  double seconds = 0;  // of a film, that a frame takes
};
// The positions of a prompt's tokens on several axes.
struct AxisPlan {
  std::vector<AxisPositions> axes;  // of the prompt's tokens
  std::int64_t shift = 0;           // of the tokens behind it: BatchSequence::axis_shift
};

// How the rows of some pictures lie in one batch. Patches are counted over all pictures, in the processor's order.
struct TowerLayout {
  std::vector<std::int32_t> patches;            // [rows], -1: a row of its own
  std::vector<RowSpan> spans, windows, merged;  // rows that see one another; merged: behind a merger among the layers
  std::vector<AxisPositions> axes;              // [rows] or empty
  std::vector<BlendedRows> blends;
  std::vector<std::vector<std::int32_t>> maps;
  std::vector<int> features;  // rows that each picture gives
  int rows() const { return static_cast<int>(patches.size()); }
};

// One family's tower and projector.
struct TowerSpec {
  ModelSpec body;             // its width, names, norm and layers
  int patch_width = 0;        // floats
  int planes = 0, patch = 0;  // pixels are planes of so many channels, cut into squares of so many pixels; 0: patches
  int side = 0;               // patches of a picture, where their number is fixed; 0: any
  int most_frames = 0;        // of a picture; 0: any number
  int merge = 1;              // height and width are multiples of it
  int features_width = 0;     // the text model's
  int deep_outputs = 0;       // outputs for the text model's first layers, beside the features
  std::function<Rows(Builder&)> enter;                         // rows out of patches
  std::function<void(Builder&, int layer, Rows)> behind = {};  // what else is made of a layer's rows
  std::function<void(Builder&, Rows)> leave;                   // gives output 0
  std::function<TowerLayout(std::span<const TowerPicture>)> layout;
  // Of any-resolution families: how many tiles a picture of an original size has, the whole in small included.
  std::function<int(const TowerPicture&)> tiles = {};
  // Where the text model's tokens stand; empty: at their positions.
  std::function<AxisPlan(std::int64_t tokens, std::span<const PicturePlace>)> axes = {};
};

}  // namespace espalier
