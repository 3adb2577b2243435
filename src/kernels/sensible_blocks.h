// sensible_blocks.h: for tests: random bytes made into blocks of tensor/group_blocks.h that a checkpoint could hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/group_blocks.h"

namespace espalier::testing {

constexpr int code_bits(DType type) {
  switch (type) {
    case DType::g2_32:
    case DType::g2_64:
    case DType::g2_128:
      return 2;
    case DType::g3_32:
    case DType::g3_128:
      return 3;
    case DType::g8_32:
    case DType::g8_128:
    case DType::f8_32:
    case DType::f8_128:
      return 8;
    default:
      return 4;
  }
}

// Codes get the width of the type, zeros its range, the scale is the one given (of G2 .. G4 the nearest that panels hold);
// no NaN among floats of eight bits.
inline void make_sensible(DType type, std::span<std::byte> block, float scale) {
  const bool groups = type >= DType::g2_32 && type <= DType::g8_128, f8 = is_float8(type);
  const int most = (1 << code_bits(type)) - 1;
  std::size_t first = groups ? 6 : 4;
  const bool raised = groups && code_bits(type) < 8;
  const StoredF32 d = StoredF32::of(raised ? to_float(to_f16(scale * kScaleRaise)) / kScaleRaise : scale);
  std::memcpy(block.data(), d.bytes, 4);
  const auto number = [](std::byte b) { return static_cast<int>(b); };
  if (groups) {
    block[4] = static_cast<std::byte>(number(block[4]) % (most + 1));
    block[5] = static_cast<std::byte>(most == 255 && number(block[4]) == 0 ? 1 : 0);  // 256
  }
  if (type == DType::nvfp4_g) {
    for (; first < 8; ++first) block[first] = static_cast<std::byte>(number(block[first]) % 0x7f);
  }
  for (std::size_t i = first; i < block.size(); ++i) {
    const int code = number(block[i]) & most;
    block[i] = static_cast<std::byte>(f8 && (code & 0x7f) == 0x7f ? 1 : code);
  }
}

}  // namespace espalier::testing
