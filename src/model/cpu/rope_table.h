// rope_table.h: cosines and sines of rotary position embedding, grown as far as positions have been seen.
//
// Angles are computed as transformers computes them (float32 position times float32 inverse frequency), so that long
// contexts agree with it, and then turned into cosines and sines in double precision.
// Threads: reserve() by the engine thread only; reading from anywhere between calls.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/batch.h"
#include "model/program/rope_spec.h"

namespace espalier {

// Angles of positions 0, 1, ... under one set of frequencies.
class RopeTable {
 public:
  RopeTable(std::vector<float> inverse_frequency, float magnitude)
      : inverse_frequency_(std::move(inverse_frequency)), magnitude_(magnitude) {}
  int half() const { return static_cast<int>(inverse_frequency_.size()); }

  void reserve(std::int64_t positions);
  const float* cosines(std::int64_t position) const { return values_.data() + position * 2 * half(); }
  const float* sines(std::int64_t position) const { return cosines(position) + half(); }

 private:
  std::vector<float> inverse_frequency_;
  float magnitude_;
  std::int64_t known_ = 0;
  std::vector<float> values_;  // [positions][2][half]
};

// The angles of a RopeSpec: those of long texts may be others, and (dynamic NTK) depend on the text's length.
class RopeTables {
 public:
  explicit RopeTables(RopeSpec spec);
  // For positions below this one, of texts of these lengths.
  void reserve(std::int64_t positions, std::span<const std::int64_t> lengths);
  const RopeTable& of(std::int64_t length) const;
  bool has_axes() const { return !spec_.axes.empty(); }
  bool halves_differ() const { return spec_.axes.size() > spec_.inverse_frequency.size(); }
  // Cosines and sines of each frequency at the position on its axis, in memory of the calling thread until the next call.
  // Of the short text's table. later: of the second half, where halves differ.
  std::pair<const float*, const float*> by_axes(const AxisPositions& at, std::int64_t position,
                                                bool later = false) const;

 private:
  bool is_long(std::int64_t length) const { return spec_.long_after > 0 && length > spec_.long_after; }
  RopeTable grown(std::int64_t length) const;

  RopeSpec spec_;
  RopeTable short_, long_;
  std::map<std::int64_t, RopeTable> by_length_;  // those of the last reserve()
};

}  // namespace espalier
