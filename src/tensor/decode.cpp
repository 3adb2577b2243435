#include "tensor/decode.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tensor/group_blocks.h"
#include "tensor/iq_blocks.h"
#include "tensor/quant_blocks.h"

namespace espalier {
namespace {

// --- blocks of 32 ---

void decode(const BlockQ8_0& b, float* x) {
  const float d = b.d.value();
  for (int i = 0; i < 32; ++i) x[i] = d * static_cast<float>(b.q[i]);
}

// Calls put(element, nibble) for the 32 elements of a 16-byte group.
template <class Put>
void each_nibble(const std::uint8_t* q, Put&& put) {
  for (int j = 0; j < 16; ++j) {
    put(j, q[j] & 15);
    put(j + 16, q[j] >> 4);
  }
}

void decode(const BlockQ4_0& b, float* x) {
  const float d = b.d.value();
  each_nibble(b.q, [&](int i, int q) { x[i] = d * static_cast<float>(q - 8); });
}

void decode(const BlockQ4_1& b, float* x) {
  const float d = b.d.value(), m = b.m.value();
  each_nibble(b.q, [&](int i, int q) { x[i] = d * static_cast<float>(q) + m; });
}

int fifth_bit(const std::uint8_t (&high)[4], int i) {
  return ((high[i / 8] >> (i % 8)) & 1) << 4;
}

void decode(const BlockQ5_0& b, float* x) {
  const float d = b.d.value();
  each_nibble(b.q, [&](int i, int q) { x[i] = d * static_cast<float>((q | fifth_bit(b.high, i)) - 16); });
}

void decode(const BlockQ5_1& b, float* x) {
  const float d = b.d.value(), m = b.m.value();
  each_nibble(b.q, [&](int i, int q) { x[i] = d * static_cast<float>(q | fifth_bit(b.high, i)) + m; });
}

void decode_iq4(float d, const std::uint8_t* q, float* x) {
  each_nibble(q, [&](int i, int v) { x[i] = d * static_cast<float>(kIq4Values[v]); });
}

void decode(const BlockIQ4_NL& b, float* x) {
  decode_iq4(b.d.value(), b.q, x);
}

// --- blocks of 256 ---

void decode(const BlockIQ4_XS& b, float* x) {
  const float d = b.d.value();
  for (int s = 0; s < 8; ++s) {
    decode_iq4(d * static_cast<float>(scale_iq4_xs(b, s) - 32), b.q + 16 * s, x + 32 * s);
  }
}

// Element i of the two-bit numbers shared by Q2_K, Q3_K and (its upper bits) Q6_K.
int two_bits(const std::uint8_t* q, int i) {
  return (q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

void decode(const BlockQ2_K& b, float* x) {
  const float d = b.d.value(), m = b.m.value();
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s] & 15), min = m * static_cast<float>(b.scales[s] >> 4);
    for (int i = 16 * s; i < 16 * s + 16; ++i) x[i] = scale * static_cast<float>(two_bits(b.q, i)) - min;
  }
}

void decode(const BlockQ3_K& b, float* x) {
  const float d = b.d.value();
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(scale_q3_k(b.scales, s) - 32);
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int third = (b.high[i % 32] >> (i / 32)) & 1;
      x[i] = scale * static_cast<float>((two_bits(b.q, i) | (third << 2)) - 4);
    }
  }
}

// Nibble of element i: four groups of 64 values in 32 bytes.
int nibble_k(const std::uint8_t* q, int i) {
  return (q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
}

void decode(const BlockQ4_K& b, float* x) {
  const float d = b.d.value(), m = b.m.value();
  for (int s = 0; s < 8; ++s) {
    const auto packed = scale_min_k4(b.scales, s);
    const float scale = d * static_cast<float>(packed.scale), min = m * static_cast<float>(packed.min);
    for (int i = 32 * s; i < 32 * s + 32; ++i) x[i] = scale * static_cast<float>(nibble_k(b.q, i)) - min;
  }
}

void decode(const BlockQ5_K& b, float* x) {
  const float d = b.d.value(), m = b.m.value();
  for (int s = 0; s < 8; ++s) {
    const auto packed = scale_min_k4(b.scales, s);
    const float scale = d * static_cast<float>(packed.scale), min = m * static_cast<float>(packed.min);
    for (int i = 32 * s; i < 32 * s + 32; ++i) {
      const int fifth = ((b.high[i % 32] >> s) & 1) << 4;
      x[i] = scale * static_cast<float>(nibble_k(b.q, i) | fifth) - min;
    }
  }
}

void decode(const BlockQ6_K& b, float* x) {
  const float d = b.d.value();
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s]);
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int low = (b.low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
      x[i] = scale * static_cast<float>((low | (two_bits(b.high, i) << 4)) - 32);
    }
  }
}

// --- lattices, thirds, floats of four bits ---

template <class Block>
  requires requires(const Block& b) { take_apart(b); }
void decode(const Block& b, float* x) {
  const IqValues parts = take_apart(b);
  const float d = parts.d.value() * kIqFactor<Block>;
  for (int i = 0; i < 256; ++i) {
    const std::uint8_t scale = parts.scale[i / 16];
    x[i] = d * static_cast<float>(scale) * static_cast<float>(parts.value[i]);
  }
}

template <class Block>
  requires requires(const Block& b, std::uint8_t (&q)[256]) { ternary(b, q); }
void decode(const Block& b, float* x) {
  std::uint8_t q[256];
  ternary(b, q);
  const float d = b.d.value();
  for (int i = 0; i < 256; ++i) x[i] = d * static_cast<float>(q[i] - 1);
}

void decode(const BlockMXFP4& b, float* x) {
  const float d = half_e8m0(b.e);
  each_nibble(b.q, [&](int i, int q) { x[i] = d * static_cast<float>(kFp4Values[q]); });
}

void decode(const BlockNVFP4& b, float* x) {
  for (int i = 0; i < 64; ++i) {
    const int q = b.q[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15;
    x[i] = half_ue4m3(b.d[i / 16]) * static_cast<float>(kFp4Values[q]);
  }
}

// --- rows of other checkpoints ---

template <int kValues>
void decode(const BlockGroup<kValues>& b, float* x) {
  const float d = b.d.value();
  const int zero = b.zero_point();
  for (int i = 0; i < kValues; ++i) x[i] = d * static_cast<float>(b.q[i] - zero);
}

template <int kValues>
void decode(const BlockScaled<kValues>& b, float* x) {
  const float d = b.d.value();
  for (int i = 0; i < kValues; ++i) x[i] = d * f8_e4m3_to_float(b.q[i]);
}

struct BlockNF4 : BlockScaled<64> {};
struct BlockFP4 : BlockScaled<64> {};
void decode(const BlockNF4& b, float* x) {
  for (int i = 0; i < 64; ++i) x[i] = b.d.value() * kNf4Values[b.q[i] & 15];
}
void decode(const BlockFP4& b, float* x) {
  for (int i = 0; i < 64; ++i) x[i] = b.d.value() * kFp4Table[b.q[i] & 15];
}

void decode(const BlockNvfp4Group& b, float* x) {
  const float half = 0.5f * b.global.value();
  for (int i = 0; i < 64; ++i)
    x[i] = half * f8_e4m3_to_float(b.d[i / 16]) * static_cast<float>(kFp4Values[b.q[i] & 15]);
}

// --- rows ---

template <class Block, DType type>
void blocks(std::span<const std::byte> stored, std::span<float> out) {
  constexpr int elements = block_shape(type).elements;
  const auto* block = reinterpret_cast<const Block*>(stored.data());  // alignment 1, members are bytes
  for (std::size_t i = 0; i + elements <= out.size(); i += elements) decode(*block++, out.data() + i);
}

template <class Stored, class ToFloat>
void plain(std::span<const std::byte> stored, std::span<float> out, ToFloat&& convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, stored.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(value);
  }
}

template <class Number>
void numbers(std::span<const std::byte> stored, std::span<float> out) {
  plain<Number>(stored, out, [](Number value) { return static_cast<float>(value); });
}

}  // namespace

void decode_row(DType type, std::span<const std::byte> stored, std::span<float> out) {
  switch (type) {
    case DType::f32:
      return numbers<float>(stored, out);
    case DType::f16:
      return plain<f16>(stored, out, [](f16 value) { return to_float(value); });
    case DType::bf16:
      return plain<bf16>(stored, out, [](bf16 value) { return to_float(value); });
    case DType::f64:
      return numbers<double>(stored, out);
    case DType::i8:
      return numbers<std::int8_t>(stored, out);
    case DType::i16:
      return numbers<std::int16_t>(stored, out);
    case DType::i32:
      return numbers<std::int32_t>(stored, out);
    case DType::i64:
      return numbers<std::int64_t>(stored, out);
    case DType::u8:
      return numbers<std::uint8_t>(stored, out);
    case DType::u16:
      return numbers<std::uint16_t>(stored, out);
    case DType::u32:
      return numbers<std::uint32_t>(stored, out);
    case DType::u64:
      return numbers<std::uint64_t>(stored, out);
    case DType::boolean:
      return plain<std::uint8_t>(stored, out, [](std::uint8_t v) { return v != 0 ? 1.0f : 0.0f; });
    case DType::f8_e4m3:
      return plain<std::uint8_t>(stored, out, f8_e4m3_to_float);
    case DType::f8_e5m2:
      return plain<std::uint8_t>(stored, out, f8_e5m2_to_float);
    case DType::f8_e8m0:
      return plain<std::uint8_t>(stored, out, f8_e8m0_to_float);
    case DType::q8_0:
      return blocks<BlockQ8_0, DType::q8_0>(stored, out);
    case DType::q4_0:
      return blocks<BlockQ4_0, DType::q4_0>(stored, out);
    case DType::q4_1:
      return blocks<BlockQ4_1, DType::q4_1>(stored, out);
    case DType::q5_0:
      return blocks<BlockQ5_0, DType::q5_0>(stored, out);
    case DType::q5_1:
      return blocks<BlockQ5_1, DType::q5_1>(stored, out);
    case DType::q2_k:
      return blocks<BlockQ2_K, DType::q2_k>(stored, out);
    case DType::q3_k:
      return blocks<BlockQ3_K, DType::q3_k>(stored, out);
    case DType::q4_k:
      return blocks<BlockQ4_K, DType::q4_k>(stored, out);
    case DType::q5_k:
      return blocks<BlockQ5_K, DType::q5_k>(stored, out);
    case DType::q6_k:
      return blocks<BlockQ6_K, DType::q6_k>(stored, out);
    case DType::iq4_nl:
      return blocks<BlockIQ4_NL, DType::iq4_nl>(stored, out);
    case DType::iq4_xs:
      return blocks<BlockIQ4_XS, DType::iq4_xs>(stored, out);
    case DType::iq1_s:
      return blocks<BlockIQ1_S, DType::iq1_s>(stored, out);
    case DType::iq1_m:
      return blocks<BlockIQ1_M, DType::iq1_m>(stored, out);
    case DType::iq2_xxs:
      return blocks<BlockIQ2_XXS, DType::iq2_xxs>(stored, out);
    case DType::iq2_xs:
      return blocks<BlockIQ2_XS, DType::iq2_xs>(stored, out);
    case DType::iq2_s:
      return blocks<BlockIQ2_S, DType::iq2_s>(stored, out);
    case DType::iq3_xxs:
      return blocks<BlockIQ3_XXS, DType::iq3_xxs>(stored, out);
    case DType::iq3_s:
      return blocks<BlockIQ3_S, DType::iq3_s>(stored, out);
    case DType::tq1_0:
      return blocks<BlockTQ1_0, DType::tq1_0>(stored, out);
    case DType::tq2_0:
      return blocks<BlockTQ2_0, DType::tq2_0>(stored, out);
    case DType::mxfp4:
      return blocks<BlockMXFP4, DType::mxfp4>(stored, out);
    case DType::nvfp4:
      return blocks<BlockNVFP4, DType::nvfp4>(stored, out);
    case DType::g2_32:
    case DType::g3_32:
    case DType::g4_32:
    case DType::g8_32:
      return blocks<BlockGroup<32>, DType::g4_32>(stored, out);
    case DType::f8_32:
      return blocks<BlockScaled<32>, DType::f8_32>(stored, out);
    case DType::g2_64:
      return blocks<BlockGroup<64>, DType::g2_64>(stored, out);
    case DType::g2_128:
    case DType::g3_128:
    case DType::g4_128:
    case DType::g8_128:
      return blocks<BlockGroup<128>, DType::g4_128>(stored, out);
    case DType::f8_128:
      return blocks<BlockScaled<128>, DType::f8_128>(stored, out);
    case DType::nvfp4_g:
      return blocks<BlockNvfp4Group, DType::nvfp4_g>(stored, out);
    case DType::nf4:
      return blocks<BlockNF4, DType::nf4>(stored, out);
    case DType::fp4:
      return blocks<BlockFP4, DType::fp4>(stored, out);
  }
}

void decode_made_row(const Tensor& tensor, std::int64_t row, std::span<float> out) {
  const BlockShape block = block_shape(tensor.dtype);
  std::vector<std::byte> stored(out.size() / static_cast<std::size_t>(block.elements) *
                                static_cast<std::size_t>(block.bytes));
  tensor.maker->make(row, stored);
  const std::span<const std::int32_t> order = tensor.maker->order();
  if (order.empty()) return decode_row(tensor.dtype, stored, out);
  std::vector<float> sorted(out.size());
  decode_row(tensor.dtype, stored, sorted);
  for (std::size_t k = 0; k < out.size(); ++k) out[static_cast<std::size_t>(order[k])] = sorted[k];
}

std::vector<float> decode(const Tensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  const bool turned = tensor.maker && tensor.maker->turned();
  const std::int64_t lines = turned ? tensor.shape[tensor.shape.size() - 2] : 0;
  const auto columns = static_cast<std::size_t>(turned ? lines : tensor.columns());
  const std::int64_t rows =
      turned ? tensor.rows() / std::max<std::int64_t>(lines, 1) * tensor.columns() : tensor.rows();
  std::vector<float> one(turned ? columns : 0);
  for (std::int64_t row = 0; row < rows && columns > 0; ++row) {
    const auto to = std::span(out).subspan(static_cast<std::size_t>(turned ? 0 : row) * columns, columns);
    if (!tensor.maker) {
      decode_row(tensor.dtype, tensor.row(row), to);
    } else if (!turned) {
      decode_made_row(tensor, row, to);
    } else {  // row r of matrix m is a column of it
      decode_made_row(tensor, row, one);
      const std::int64_t matrix = row / tensor.columns(), column = row % tensor.columns();
      for (std::int64_t k = 0; k < lines; ++k)
        out[static_cast<std::size_t>((matrix * lines + k) * tensor.columns() + column)] =
            one[static_cast<std::size_t>(k)];
    }
  }
  return out;
}

}  // namespace espalier
