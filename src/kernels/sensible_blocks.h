// sensible_blocks.h: for tests: random bytes made into blocks that a checkpoint could hold, of every type that has panels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tensor/group_blocks.h"

namespace espalier::testing {

// Every type that has panels.
inline constexpr DType kPanelTypes[] = {
    DType::f32,    DType::f16,    DType::bf16,    DType::q8_0,    DType::q4_0,   DType::q4_1,  DType::q5_0,
    DType::q5_1,   DType::q2_k,   DType::q3_k,    DType::q4_k,    DType::q5_k,   DType::q6_k,  DType::iq4_nl,
    DType::iq4_xs, DType::iq1_s,  DType::iq1_m,   DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::iq3_xxs,
    DType::iq3_s,  DType::tq1_0,  DType::tq2_0,   DType::mxfp4,   DType::nvfp4,  DType::g2_32, DType::g2_64,
    DType::g2_128, DType::g3_32,  DType::g3_128,  DType::g4_32,   DType::g4_128, DType::g8_32, DType::g8_128,
    DType::f8_32,  DType::f8_128, DType::nvfp4_g, DType::nf4,     DType::fp4};

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

// Of blocks of tensor/group_blocks.h: codes get the width of the type, zeros its range, the scale is the one given (of G2 .. G4 the nearest that panels hold);
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

// Where the f16 numbers of a GGUF block lie that must be finite.
inline std::vector<int> half_offsets(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    case DType::tq1_0:
      return {52};
    case DType::tq2_0:
      return {64};
    case DType::iq1_m:
    case DType::mxfp4:
    case DType::nvfp4:
      return {};
    default:
      return {0};
  }
}

// Makes a block of random bits one that a checkpoint could hold. `value`: normally distributed.
inline void make_block(std::mt19937_64& rng, DType type, std::byte* block, float value) {
  const BlockShape shape = block_shape(type);
  const auto put = [&](int at, auto bits) { std::memcpy(block + at, &bits, sizeof bits); };
  if (type == DType::f32) return put(0, value);
  if (type == DType::f16) return put(0, to_f16(value).bits);
  if (type == DType::bf16) return put(0, to_bf16(value).bits);
  if (is_made(type)) return make_sensible(type, {block, static_cast<std::size_t>(shape.bytes)}, value * 0.02f);
  for (const int at : half_offsets(type)) put(at, to_f16(std::normal_distribution<float>(0.0f, 0.02f)(rng)).bits);
  if (type == DType::mxfp4) block[0] = static_cast<std::byte>(115 + rng() % 10);
  if (type == DType::nvfp4)  // scales without a sign, no NaN
    for (int i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(rng() % 0x7f);
  if (type == DType::iq1_m) {  // d is spread over the upper nibbles of four words: 0x2400 to 0x27ff
    const unsigned d = 0x2400 + static_cast<unsigned>(rng() % 0x400);
    for (int w = 0; w < 4; ++w)
      block[49 + 2 * w] = (block[49 + 2 * w] & std::byte{15}) | static_cast<std::byte>((d >> (4 * w) & 15) << 4);
  }
}

}  // namespace espalier::testing
