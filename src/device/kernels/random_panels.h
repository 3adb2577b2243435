// random_panels.h: for tests: packed matrices of random bits that a checkpoint could hold; bytes on a device.
#pragma once

#include <random>
#include <vector>

#include "device/device.h"
#include "kernels/matmul/packed_matrix.h"
#include "kernels/sensible_blocks.h"

namespace espalier::testing {

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
