// iq_grids.h: the points of the lattices that the IQ types choose from, and their signs.
//
// An entry has the place of each value in the type's list of magnitudes (iq_blocks.h), the first value in the lowest
// bits: 8 values of 2 bits (IQ1, IQ2) or 4 values of 3 bits (IQ3). Pure data.
// Source: the GGUF format.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace espalier {

extern const std::array<std::uint16_t, 256> kGridIQ2_XXS;
extern const std::array<std::uint16_t, 512> kGridIQ2_XS;
extern const std::array<std::uint16_t, 1024> kGridIQ2_S;
extern const std::array<std::uint16_t, 256> kGridIQ3_XXS;
extern const std::array<std::uint16_t, 512> kGridIQ3_S;
extern const std::array<std::uint16_t, 2048> kGridIQ1;

// The signs of eight values out of seven bits: the eighth makes the number of minus signs even.
constexpr std::uint8_t eight_signs(unsigned seven) {
  return static_cast<std::uint8_t>(seven | (static_cast<unsigned>(std::popcount(seven)) & 1u) << 7);
}

}  // namespace espalier
