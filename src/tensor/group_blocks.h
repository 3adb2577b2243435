// group_blocks.h: the blocks in which rows of quantised Hugging Face checkpoints are handed to packing and decoding.
//
// No file holds these: checkpoints scatter codes, scales and zeros over several tensors, often turned, and whoever reads
// one (model/quant) makes such rows, a matrix at a time. A code has a byte here, whatever its width; panels have the
// width (kernels/matmul/packed_matrix.h).
//   G2 .. G8   x = d * (q - zero)              groups of a scale and a zero point: GPTQ, AWQ, compressed-tensors, int8;
//                                              d of G2 .. G4: fits_raised()
//   F8         x = d * e4m3(q)                 FP8 with a scale per tensor, channel or block
//   NVFP4_G    x = global * e4m3(d) * e2m1(q)  16 values a scale, and one for the whole matrix
//   NF4, FP4   x = d * table[q]                bitsandbytes
// Number behind the name: values in a block. Layout as in quant_blocks.h: bytes only, alignment 1.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace espalier {

// A float32 without alignment.
struct StoredF32 {
  std::uint8_t bytes[4];
  float value() const {
    float out;
    std::memcpy(&out, bytes, 4);
    return out;
  }
  static StoredF32 of(float value) {
    StoredF32 out;
    std::memcpy(out.bytes, &value, 4);
    return out;
  }
};

// Whether panels of G2 .. G4 hold this scale exactly.
constexpr bool fits_raised(float scale) {
  return to_float(to_f16(scale * kScaleRaise)) == scale * kScaleRaise;
}

// Codes of any width up to eight bits. kValues: 32, 64 or 128.
template <int kValues>
struct BlockGroup {
  StoredF32 d;
  std::uint8_t zero[2];  // little-endian, 0..256
  std::uint8_t q[kValues];
  int zero_point() const { return zero[0] | zero[1] << 8; }
  void set_zero(int z) {
    zero[0] = static_cast<std::uint8_t>(z & 255);
    zero[1] = static_cast<std::uint8_t>(z >> 8);
  }
};

// A scale and a byte a value: F8 (e4m3; kValues: 32 or 128), NF4 and FP4 (a place in a table; 64).
template <int kValues>
struct BlockScaled {
  StoredF32 d;
  std::uint8_t q[kValues];
};

// q: nibbles, a byte each.
struct BlockNvfp4Group {
  StoredF32 global;
  std::uint8_t d[4];  // e4m3
  std::uint8_t q[64];
};

// bitsandbytes' codes of four bits.
inline constexpr std::array<float, 16> kNf4Values = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};
inline constexpr std::array<float, 16> kFp4Table = {
    0.0f, 0.0052083333f,  0.6666667f,  1.0f,  0.33333334f,  0.5f,  0.16666667f,  0.25f,
    0.0f, -0.0052083333f, -0.6666667f, -1.0f, -0.33333334f, -0.5f, -0.16666667f, -0.25f};

}  // namespace espalier
