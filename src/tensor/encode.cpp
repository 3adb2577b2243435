#include "tensor/encode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/quant_blocks.h"

namespace espalier {
namespace {

// A float to an integer in [low, high], towards zero; NaN gives low. (A plain cast of either would be undefined.)
int clamped(float value, int low, int high) {
  if (!(value > static_cast<float>(low))) return low;
  return value >= static_cast<float>(high) ? high : static_cast<int>(value);
}

void encode(const float* x, BlockQ8_0& b) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127;
  const float inverse = d != 0 ? 1 / d : 0;
  b.d = StoredF16::of(to_f16(d));
  for (int i = 0; i < 32; ++i) b.q[i] = static_cast<std::int8_t>(clamped(std::round(x[i] * inverse), -127, 127));
}

// The value of largest magnitude maps to -8, so that all sixteen levels are of use; the first of equals counts.
void encode(const float* x, BlockQ4_0& b) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float d = extreme / -8;
  const float inverse = d != 0 ? 1 / d : 0;
  b.d = StoredF16::of(to_f16(d));
  for (int j = 0; j < 16; ++j) {
    const int low = clamped(x[j] * inverse + 8.5f, 0, 15), high = clamped(x[j + 16] * inverse + 8.5f, 0, 15);
    b.q[j] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

void encode(const float* x, BlockQ4_1& b) {
  const auto [least, greatest] = std::minmax_element(x, x + 32);
  const float m = *least;
  const float d = (*greatest - m) / 15;
  const float inverse = d != 0 ? 1 / d : 0;
  b.d = StoredF16::of(to_f16(d));
  b.m = StoredF16::of(to_f16(m));
  for (int j = 0; j < 16; ++j) {
    const int low = clamped((x[j] - m) * inverse + 0.5f, 0, 15),
              high = clamped((x[j + 16] - m) * inverse + 0.5f, 0, 15);
    b.q[j] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

template <class Block>
void blocks(std::span<const float> row, std::span<std::byte> stored) {
  auto* block = reinterpret_cast<Block*>(stored.data());  // alignment 1, members are bytes
  for (std::size_t i = 0; i + 32 <= row.size(); i += 32) encode(row.data() + i, *block++);
}

template <class Stored, class FromFloat>
void plain(std::span<const float> row, std::span<std::byte> stored, FromFloat&& convert) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Stored value = convert(row[i]);
    std::memcpy(stored.data() + i * sizeof(Stored), &value, sizeof(Stored));
  }
}

}  // namespace

void encode_row(DType type, std::span<const float> row, std::span<std::byte> stored) {
  switch (type) {
    case DType::f32:
      return plain<float>(row, stored, [](float value) { return value; });
    case DType::f16:
      return plain<f16>(row, stored, to_f16);
    case DType::bf16:
      return plain<bf16>(row, stored, to_bf16);
    case DType::q8_0:
      return blocks<BlockQ8_0>(row, stored);
    case DType::q4_0:
      return blocks<BlockQ4_0>(row, stored);
    case DType::q4_1:
      return blocks<BlockQ4_1>(row, stored);
    default:
      return;
  }
}

std::vector<std::byte> encode(DType type, std::span<const float> values, std::int64_t columns) {
  const Shape row_shape = {columns};
  const auto row_bytes = static_cast<std::size_t>(stored_bytes(type, row_shape).value_or(0));
  const std::size_t rows = columns > 0 ? values.size() / static_cast<std::size_t>(columns) : 0;
  std::vector<std::byte> out(rows * row_bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    encode_row(type, values.subspan(row * columns, columns), std::span(out).subspan(row * row_bytes, row_bytes));
  }
  return out;
}

}  // namespace espalier
