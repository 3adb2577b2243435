// rope_spec.h: the angles of rotary position embedding, as numbers: which dimensions of a head turn, and how fast.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

// One table of angles. Texts longer than `long_after` positions (0: none) have other frequencies for all of their
// positions: the long ones, or (dynamic NTK) those of a base that grows with the text's length.
struct RopeSpec {
  std::vector<float> inverse_frequency;  // [rotated dimensions / 2], scaling already applied
  float magnitude = 1.0f;                // of cosines and sines (YaRN, longrope)
  bool factors_in_file = false;          // GGUF: divide inverse_frequency by rope_freqs.weight when the file has it
  std::int64_t long_after = 0;
  std::vector<float> long_inverse_frequency = {};  // as many
  double dynamic_theta = 0, dynamic_factor = 0;    // dynamic NTK
  // Which axis each frequency's angle is of (0 time, 1 height, 2 width; or the token's own position); empty: all that
  // position. As many; or twice as many, where the second half of a head goes by other axes (only of halves that turn
  // together).
  static constexpr std::uint8_t own_position = 3;
  std::vector<std::uint8_t> axes = {};
  int dims() const { return 2 * static_cast<int>(inverse_frequency.size()); }
  bool operator==(const RopeSpec&) const = default;
};

}  // namespace espalier
