// four_words.h: sixteen bytes that a thread loads or stores at once, at multiples of 16 bytes.
#pragma once

#include <cstdint>

namespace espalier::cuda {

// Sixteen bytes.
struct alignas(16) FourWords {
  std::uint32_t x[4];
};

}  // namespace espalier::cuda
