#include "kernels/matmul/panel_pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>

#include "kernels/matmul/panel_block.h"
#include "tensor/quant_blocks.h"

namespace espalier {

using namespace panel_block;

namespace {

// 32 codes; byte i holds i and i + 16.
void nibbles(const std::uint8_t* q, Word* codes) {
  for (int j = 0; j < 4; ++j) {
    const Word word = load_word(q + 4 * j);
    codes[j] = word & each_byte(15);
    codes[j + 4] = word >> 4 & each_byte(15);
  }
}
void nibbles_k(const std::uint8_t* q, Word* codes) {
  for (int i = 0; i < 32; ++i) {
    const Word word = load_word(q + 4 * i);
    codes[i / 8 * 16 + i % 8] = word & each_byte(15);
    codes[i / 8 * 16 + i % 8 + 8] = word >> 4 & each_byte(15);
  }
}
template <int kShift>
void or_two_bits(const std::uint8_t* q, Word* codes) {
  for (int quarter = 0; quarter < 8; ++quarter)
    for (int j = 0; j < 8; ++j)
      codes[8 * quarter + j] |= (load_word(q + quarter / 4 * 32 + 4 * j) >> (2 * (quarter % 4)) & each_byte(3))
                                << kShift;
}
template <int kBit>
void or_fifth(const std::uint8_t* high, Word* codes) {  // bit i of 32 belongs to code i
  const Word bits = load_word(high);
  for (int j = 0; j < 8; ++j) codes[j] |= spread_bits(bits, j) << kBit;
}
template <int kBit>
void or_bit_k(const std::uint8_t* high, Word* codes) {  // bit s of byte i belongs to code 32 s + i
  for (int s = 0; s < 8; ++s)
    for (int j = 0; j < 8; ++j) codes[8 * s + j] |= (load_word(high + 4 * j) >> s & each_byte(1)) << kBit;
}

void spell(const BlockQ8_0& b, Spelled& out) {
  out.d = b.d;
  for (int j = 0; j < 8; ++j) out.codes[j] = load_word(b.q + 4 * j) ^ each_byte(0x80);
}
void spell(const BlockQ4_0& b, Spelled& out) {
  out.d = b.d;
  nibbles(b.q, out.codes);
}
void spell(const BlockIQ4_NL& b, Spelled& out) {
  out.d = b.d;
  nibbles(b.q, out.codes);
}
void spell(const BlockQ4_1& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  nibbles(b.q, out.codes);
}
void spell(const BlockQ5_0& b, Spelled& out) {
  out.d = b.d;
  nibbles(b.q, out.codes);
  or_fifth<4>(b.high, out.codes);
}
void spell(const BlockQ5_1& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  nibbles(b.q, out.codes);
  or_fifth<4>(b.high, out.codes);
}
void spell_scales_k4(const std::uint8_t (&packed)[12], Spelled& out) {
  for (int s = 0; s < 8; ++s) {
    const ScaleMin both = scale_min_k4(packed, s);
    out.scales[s] = both.scale;
    out.mins[s] = both.min;
  }
}
void spell(const BlockQ4_K& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  spell_scales_k4(b.scales, out);
  nibbles_k(b.q, out.codes);
}
void spell(const BlockQ5_K& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  spell_scales_k4(b.scales, out);
  nibbles_k(b.q, out.codes);
  or_bit_k<4>(b.high, out.codes);
}
void spell(const BlockQ6_K& b, Spelled& out) {
  out.d = b.d;
  std::memcpy(out.scales, b.scales, 16);
  for (int i = 0; i < 64; ++i)  // two halves of 128 codes; byte i of 64 holds i and i + 64
    out.codes[i] = load_word(b.low + i / 32 * 64 + i % 16 * 4) >> (i % 32 / 16 * 4) & each_byte(15);
  or_two_bits<4>(b.high, out.codes);
}
void spell(const BlockQ3_K& b, Spelled& out) {
  out.d = b.d;
  for (int s = 0; s < 16; ++s) out.scales[s] = static_cast<std::uint8_t>(scale_q3_k(b.scales, s) - 32);
  std::memset(out.codes, 0, sizeof out.codes);
  or_two_bits<0>(b.q, out.codes);
  or_bit_k<2>(b.high, out.codes);
}
void spell(const BlockQ2_K& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  for (int s = 0; s < 16; ++s) out.scales[s] = b.scales[s];  // both nibbles
  std::memset(out.codes, 0, sizeof out.codes);
  or_two_bits<0>(b.q, out.codes);
}
void spell(const BlockIQ4_XS& b, Spelled& out) {
  out.d = b.d;
  for (int s = 0; s < 8; ++s) {
    out.scales[s] = static_cast<std::uint8_t>(scale_iq4_xs(b, s) - 32);
    nibbles(b.q + 16 * s, out.codes + 8 * s);
  }
}

template <DType kType>
void write_sub_block(const Spelled& s, int sub, BlockWriter& out) {
  const Word* codes = s.codes + 8 * sub;
  if constexpr (kType == DType::q4_k || kType == DType::q5_k || kType == DType::iq4_xs) {
    out.byte(s.scales[sub]);
    if constexpr (kType != DType::iq4_xs) out.byte(s.mins[sub]);
    if constexpr (kType == DType::q5_k) out.one_bit(codes, 4);
    out.nibbles(codes);
  } else {
    out.byte(s.scales[2 * sub]);
    out.byte(s.scales[2 * sub + 1]);
    if constexpr (kType == DType::q6_k) {
      out.two_bits(codes, 4);
      out.nibbles(codes);
    } else {
      if constexpr (kType == DType::q3_k) out.one_bit(codes, 2);
      out.two_bits(codes, 0);
    }
  }
}

constexpr bool one_of(DType type, std::initializer_list<DType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

template <DType kType>
void write_block(const Spelled& s, std::uint8_t* block, int column) {
  BlockWriter out(block, column);
  out.half(s.d);
  if constexpr (one_of(kType, {DType::q4_1, DType::q5_1, DType::q2_k, DType::q4_k, DType::q5_k})) out.half(s.m);
  if constexpr (one_of(kType, {DType::q5_0, DType::q5_1})) out.one_bit(s.codes, 4);
  if constexpr (kType == DType::q8_0)
    out.bytes(s.codes);
  else if constexpr (block_shape(kType).elements == 32)
    out.nibbles(s.codes);
  else
    for (int sub = 0; sub < 8; ++sub) write_sub_block<kType>(s, sub, out);
}

template <DType kType, class Block>
void pack_blocks(std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  const PanelLayout layout = panel_layout(kType).value();
  const Block zero{};  // of a missing column: d = 0 (and m = 0), so that every value decodes to 0
  for (std::int64_t block = 0; block * layout.block_k < k; ++block, panel += layout.block_bytes)
    for (int column = 0; column < kPanelColumns; ++column) {
      const auto* stored = reinterpret_cast<const Block*>(rows[column].data());  // bytes only, alignment 1
      Spelled spelled;
      spell(rows[column].empty() ? zero : stored[block], spelled);
      write_block<kType>(spelled, panel, column);
    }
}

// Units of kBytes (an element, or a pair of bf16) of all columns side by side, along K.
template <int kBytes>
void transpose(std::int64_t units, const PanelRows& rows, std::uint8_t* panel) {
  const std::byte* from[kPanelColumns];
  for (int column = 0; column < kPanelColumns; ++column) from[column] = rows[column].data();
  for (std::int64_t unit = 0; unit < units; ++unit)
    for (int column = 0; column < kPanelColumns; ++column, panel += kBytes)
      if (from[column])
        std::memcpy(panel, from[column] + unit * kBytes, kBytes);
      else
        std::memset(panel, 0, kBytes);
}

void pack_bf16(std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  transpose<4>(k / 2, rows, panel);
  const std::int64_t padded = (k + kBf16Block - 1) / kBf16Block * kBf16Block;
  std::uint8_t* rest = panel + k / 2 * 4 * kPanelColumns;
  std::memset(rest, 0, static_cast<std::size_t>((padded / 2 - k / 2) * 4 * kPanelColumns));
  if (k % 2 == 0) return;
  for (int column = 0; column < kPanelColumns; ++column)
    if (!rows[column].empty()) std::memcpy(rest + 4 * column, rows[column].data() + (k - 1) * 2, 2);
}

}  // namespace

void pack_panel(DType type, std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  switch (type) {
    case DType::f32:
      return transpose<4>(k, rows, panel);
    case DType::f16:
      return transpose<2>(k, rows, panel);
    case DType::bf16:
      return pack_bf16(k, rows, panel);
    case DType::q8_0:
      return pack_blocks<DType::q8_0, BlockQ8_0>(k, rows, panel);
    case DType::q4_0:
      return pack_blocks<DType::q4_0, BlockQ4_0>(k, rows, panel);
    case DType::q4_1:
      return pack_blocks<DType::q4_1, BlockQ4_1>(k, rows, panel);
    case DType::q5_0:
      return pack_blocks<DType::q5_0, BlockQ5_0>(k, rows, panel);
    case DType::q5_1:
      return pack_blocks<DType::q5_1, BlockQ5_1>(k, rows, panel);
    case DType::q2_k:
      return pack_blocks<DType::q2_k, BlockQ2_K>(k, rows, panel);
    case DType::q3_k:
      return pack_blocks<DType::q3_k, BlockQ3_K>(k, rows, panel);
    case DType::q4_k:
      return pack_blocks<DType::q4_k, BlockQ4_K>(k, rows, panel);
    case DType::q5_k:
      return pack_blocks<DType::q5_k, BlockQ5_K>(k, rows, panel);
    case DType::q6_k:
      return pack_blocks<DType::q6_k, BlockQ6_K>(k, rows, panel);
    case DType::iq4_nl:
      return pack_blocks<DType::iq4_nl, BlockIQ4_NL>(k, rows, panel);
    case DType::iq4_xs:
      return pack_blocks<DType::iq4_xs, BlockIQ4_XS>(k, rows, panel);
    default:
      return pack_further_panel(type, k, rows, panel);
  }
}

}  // namespace espalier
