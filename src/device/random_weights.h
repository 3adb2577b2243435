// random_weights.h: for tests: matrices of random bits that a checkpoint could hold, of every type that has panels, and devices to
// test.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "device/device.h"
#include "kernels/matmul/packed_matrix.h"
#include "kernels/sensible_blocks.h"

namespace espalier::testing {

inline constexpr DType kPanelTypes[] = {
    DType::f32,    DType::f16,    DType::bf16,    DType::q8_0,    DType::q4_0,   DType::q4_1,  DType::q5_0,
    DType::q5_1,   DType::q2_k,   DType::q3_k,    DType::q4_k,    DType::q5_k,   DType::q6_k,  DType::iq4_nl,
    DType::iq4_xs, DType::iq1_s,  DType::iq1_m,   DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::iq3_xxs,
    DType::iq3_s,  DType::tq1_0,  DType::tq2_0,   DType::mxfp4,   DType::nvfp4,  DType::g2_32, DType::g2_64,
    DType::g2_128, DType::g3_32,  DType::g3_128,  DType::g4_32,   DType::g4_128, DType::g8_32, DType::g8_128,
    DType::f8_32,  DType::f8_128, DType::nvfp4_g, DType::nf4,     DType::fp4};

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

// [outputs, k], packed. paired: of gates and what they gate, `outputs` of each, their panels in turns.
inline PackedMatrix random_panels(std::mt19937_64& rng, DType type, std::int64_t outputs, std::int64_t k,
                                  bool paired = false) {
  const BlockShape shape = block_shape(type);
  const auto row_bytes = static_cast<std::size_t>(k / shape.elements * shape.bytes);
  const std::int64_t stored = paired ? 2 * outputs : outputs;
  std::vector<std::byte> bytes(row_bytes * static_cast<std::size_t>(stored));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(shape.bytes))
    make_block(rng, type, bytes.data() + at, normal(rng));
  const auto row = [&](std::int64_t column) -> std::span<const std::byte> {
    std::int64_t at = column;
    if (paired) {
      const std::int64_t of_pair = column / 32 * 16 + column % 16;
      if (of_pair >= outputs) return {};
      at = of_pair + (column / 16 % 2 == 1 ? outputs : 0);
    }
    return std::span<const std::byte>(bytes).subspan(row_bytes * static_cast<std::size_t>(at), row_bytes);
  };
  return PackedMatrix::pack(type, paired ? (outputs + 15) / 16 * 32 : outputs, k, row).value();
}

// A length of rows that the type has, at least `least`.
inline std::int64_t whole_blocks(DType type, std::int64_t least) {
  const std::int64_t block = std::max(block_shape(type).elements, 1);
  return (least + block - 1) / block * block;
}

// The emulated device, and those of CUDA if there are any.
inline std::vector<device::Kind> device_kinds() {
  std::vector<device::Kind> out = {device::Kind::emu};
  if (device::Device::count(device::Kind::cuda) > 0) out.push_back(device::Kind::cuda);
  return out;
}

// Bytes that lie on a device, and back.
template <class T>
device::Memory on_device(const device::Device& device, const std::vector<T>& values) {
  return device.upload(std::span<const T>(values)).value();
}
template <class T>
std::vector<T> from_device(const device::Device& device, const device::Memory& memory) {
  std::vector<T> out(memory.size() / sizeof(T));
  device.copy(out.data(), memory.data(), memory.size());
  device.wait().value();
  return out;
}

}  // namespace espalier::testing
