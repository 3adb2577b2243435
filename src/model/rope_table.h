// rope_table.h: cosines and sines of rotary position embedding, grown as far as positions have been seen.
//
// Angles are computed as transformers computes them (float32 position times float32 inverse frequency), so that long
// contexts agree with it, and then turned into cosines and sines in double precision.
// Threads: reserve() by the engine thread only; reading from anywhere between calls.
#pragma once

#include <cstdint>
#include <vector>

#include "model/decoder_spec.h"

namespace espalier {

class RopeTable {
 public:
  explicit RopeTable(RopeSpec spec) : spec_(std::move(spec)) {}
  int half() const { return static_cast<int>(spec_.inverse_frequency.size()); }

  void reserve(std::int64_t positions);
  const float* cosines(std::int64_t position) const { return values_.data() + position * 2 * half(); }
  const float* sines(std::int64_t position) const { return cosines(position) + half(); }

 private:
  RopeSpec spec_;
  std::int64_t known_ = 0;
  std::vector<float> values_;  // [positions][2][half]
};

}  // namespace espalier
