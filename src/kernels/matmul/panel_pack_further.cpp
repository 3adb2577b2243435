// Panels of the types of tensor/iq_blocks.h and group_blocks.h.
#include <algorithm>
#include <array>

#include "kernels/matmul/panel_block.h"
#include "kernels/matmul/panel_pack.h"
#include "tensor/group_blocks.h"
#include "tensor/iq_blocks.h"

namespace espalier {

using namespace panel_block;

namespace {

// Codes of kValues values, a byte each, as words.
template <int kValues>
struct Codes {
  Word words[kValues / 4];
  explicit Codes(const std::uint8_t* q) { std::memcpy(words, q, kValues); }
  const Word* of(int sub) const { return words + 8 * sub; }
};

// --- lattices: a value's place in the list of its type ---

template <class Block>
constexpr std::array<std::int8_t, 8> kSizes = {8, 25, 43};
template <>
constexpr std::array<std::int8_t, 8> kSizes<BlockIQ1_M> = {1, 7, 9};
template <>
constexpr std::array<std::int8_t, 8> kSizes<BlockIQ3_XXS> = {4, 12, 20, 28, 36, 44, 52, 62};
template <>
constexpr std::array<std::int8_t, 8> kSizes<BlockIQ3_S> = {1, 3, 5, 7, 9, 11, 13, 15};

// Magnitude in the low bits, the sign at bit kSign.
template <class Block, int kSign>
std::uint8_t place_of(std::int8_t value) {
  const int size = value < 0 ? -value : value;
  const auto& sizes = kSizes<Block>;
  const auto at = static_cast<int>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin()) & 7;
  return static_cast<std::uint8_t>(at | (value < 0 ? 1 << kSign : 0));
}

template <class Block, int kSign>
Codes<256> places_of(const IqValues& parts) {
  std::uint8_t q[256];
  for (int i = 0; i < 256; ++i) q[i] = place_of<Block, kSign>(parts.value[i]);
  return Codes<256>(q);
}

template <class Block>
void write_column(const Block& b, BlockWriter out) {  // IQ1_M, IQ2_*
  const IqValues parts = take_apart(b);
  const Codes<256> codes = places_of<Block, 2>(parts);
  out.half(parts.d);
  for (int s = 0; s < 8; ++s) {
    out.byte(parts.scale[2 * s]);
    out.byte(parts.scale[2 * s + 1]);
    out.one_bit(codes.of(s), 2);
    out.two_bits(codes.of(s), 0);
  }
}

template <class Block>
void write_three(const Block& b, BlockWriter out) {  // IQ3_*
  const IqValues parts = take_apart(b);
  const Codes<256> codes = places_of<Block, 3>(parts);
  out.half(parts.d);
  for (int s = 0; s < 8; ++s) {
    out.byte(parts.scale[2 * s]);
    out.nibbles(codes.of(s));
  }
}
void write_column(const BlockIQ3_XXS& b, BlockWriter out) {
  write_three(b, out);
}
void write_column(const BlockIQ3_S& b, BlockWriter out) {
  write_three(b, out);
}

void write_column(const BlockIQ1_S& b, BlockWriter out) {
  const IqValues parts = take_apart(b);
  std::uint8_t q[256];
  for (int i = 0; i < 256; ++i) q[i] = static_cast<std::uint8_t>((parts.value[i] + 9) / 8);  // 8 (q - 1) + or - 1
  const Codes<256> codes(q);
  out.half(parts.d);
  for (int s = 0; s < 8; ++s) {
    const bool less = (parts.value[32 * s] & 7) == 7;
    out.byte(static_cast<std::uint8_t>(less ? -parts.scale[2 * s] : parts.scale[2 * s]));
    out.two_bits(codes.of(s), 0);
  }
}

template <class Block>
void write_thirds(const Block& b, BlockWriter out) {
  std::uint8_t q[256];
  ternary(b, q);
  const Codes<256> codes(q);
  out.half(b.d);
  for (int s = 0; s < 8; ++s) out.two_bits(codes.of(s), 0);
}
void write_column(const BlockTQ1_0& b, BlockWriter out) {
  write_thirds(b, out);
}
void write_column(const BlockTQ2_0& b, BlockWriter out) {
  write_thirds(b, out);
}

// --- floats of four bits ---

void write_column(const BlockMXFP4& b, BlockWriter out) {
  std::uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = b.q[i % 16] >> (i / 16 * 4) & 15;
  const std::uint16_t d = to_bf16(half_e8m0(b.e)).bits;
  out.half({static_cast<std::uint8_t>(d & 255), static_cast<std::uint8_t>(d >> 8)});
  out.nibbles(Codes<32>(q).words);
}

void write_nvfp4(float half_global, const std::uint8_t (&d)[4], const std::uint8_t (&q)[64], BlockWriter out) {
  const Codes<64> codes(q);
  out.number(half_global);
  for (int s = 0; s < 2; ++s) {
    out.byte(d[2 * s]);
    out.byte(d[2 * s + 1]);
    out.nibbles(codes.of(s));
  }
}
void write_column(const BlockNVFP4& b, BlockWriter out) {
  std::uint8_t q[64], d[4];
  for (int i = 0; i < 64; ++i) q[i] = b.q[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15;
  for (int i = 0; i < 4; ++i) d[i] = b.d[i] == 0x7f ? 0 : b.d[i] & 0x7f;
  write_nvfp4(0.5f, d, q, out);
}
void write_column(const BlockNvfp4Group& b, BlockWriter out) {
  write_nvfp4(0.5f * b.global.value(), b.d, b.q, out);
}

// --- groups ---

template <int kBits, int kValues>
struct Group : BlockGroup<kValues> {};

template <int kBits, int kValues>
void write_column(const Group<kBits, kValues>& b, BlockWriter out) {
  const Codes<kValues> codes(b.q);
  if constexpr (kBits == 8) {
    out.number(b.d.value());
    out.half(StoredF16::of(to_f16(static_cast<float>(b.zero_point() - 128))));
    out.skip(kValues == 128 ? 32 : 0);
  } else {
    out.half(StoredF16::of(to_f16(b.d.value() * kScaleRaise)));
    out.byte(static_cast<std::uint8_t>(b.zero_point()));
    out.skip(kValues == 128 ? 16 : 0);
  }
  for (int s = 0; s < kValues / 32; ++s) {
    if constexpr (kBits == 3) out.one_bit(codes.of(s), 2);
    if constexpr (kBits < 4) out.two_bits(codes.of(s), 0);
    if constexpr (kBits == 4) out.nibbles(codes.of(s));
    if constexpr (kBits == 8) out.bytes(codes.of(s));
  }
}

struct Four : BlockScaled<64> {};  // NF4, FP4
void write_column(const Four& b, BlockWriter out) {
  const Codes<64> codes(b.q);
  out.number(b.d.value());
  for (int s = 0; s < 2; ++s) out.nibbles(codes.of(s));
}

template <DType kType, class Block>
void pack_each(std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  const PanelLayout layout = panel_layout(kType).value();
  for (std::int64_t block = 0; block * layout.block_k < k; ++block, panel += layout.block_bytes) {
    std::memset(panel, 0,
                static_cast<std::size_t>(layout.block_bytes));  // columns that are missing, and what is skipped
    for (int column = 0; column < kPanelColumns; ++column)
      if (!rows[column].empty())
        write_column(reinterpret_cast<const Block*>(rows[column].data())[block], BlockWriter(panel, column));
  }
}

template <DType kType, int kValues>
void pack_f8(std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  const PanelLayout layout = panel_layout(kType).value();
  for (std::int64_t block = 0; block * kValues < k; ++block, panel += layout.block_bytes) {
    std::memset(panel, 0, static_cast<std::size_t>(layout.block_bytes));
    for (int column = 0; column < kPanelColumns; ++column) {
      if (rows[column].empty()) continue;
      const auto& b = reinterpret_cast<const BlockScaled<kValues>*>(rows[column].data())[block];
      BlockWriter(panel, column).number(b.d.value());
      for (int i = 0; i < kValues; i += 4) std::memcpy(panel + 64 + 16 * i + 4 * column, b.q + i, 4);
    }
  }
}

}  // namespace

void pack_further_panel(DType type, std::int64_t k, const PanelRows& rows, std::uint8_t* panel) {
  switch (type) {
    case DType::iq1_s:
      return pack_each<DType::iq1_s, BlockIQ1_S>(k, rows, panel);
    case DType::iq1_m:
      return pack_each<DType::iq1_m, BlockIQ1_M>(k, rows, panel);
    case DType::iq2_xxs:
      return pack_each<DType::iq2_xxs, BlockIQ2_XXS>(k, rows, panel);
    case DType::iq2_xs:
      return pack_each<DType::iq2_xs, BlockIQ2_XS>(k, rows, panel);
    case DType::iq2_s:
      return pack_each<DType::iq2_s, BlockIQ2_S>(k, rows, panel);
    case DType::iq3_xxs:
      return pack_each<DType::iq3_xxs, BlockIQ3_XXS>(k, rows, panel);
    case DType::iq3_s:
      return pack_each<DType::iq3_s, BlockIQ3_S>(k, rows, panel);
    case DType::tq1_0:
      return pack_each<DType::tq1_0, BlockTQ1_0>(k, rows, panel);
    case DType::tq2_0:
      return pack_each<DType::tq2_0, BlockTQ2_0>(k, rows, panel);
    case DType::mxfp4:
      return pack_each<DType::mxfp4, BlockMXFP4>(k, rows, panel);
    case DType::nvfp4:
      return pack_each<DType::nvfp4, BlockNVFP4>(k, rows, panel);
    case DType::nvfp4_g:
      return pack_each<DType::nvfp4_g, BlockNvfp4Group>(k, rows, panel);
    case DType::g2_32:
      return pack_each<DType::g2_32, Group<2, 32>>(k, rows, panel);
    case DType::g2_64:
      return pack_each<DType::g2_64, Group<2, 64>>(k, rows, panel);
    case DType::g2_128:
      return pack_each<DType::g2_128, Group<2, 128>>(k, rows, panel);
    case DType::g3_32:
      return pack_each<DType::g3_32, Group<3, 32>>(k, rows, panel);
    case DType::g3_128:
      return pack_each<DType::g3_128, Group<3, 128>>(k, rows, panel);
    case DType::g4_32:
      return pack_each<DType::g4_32, Group<4, 32>>(k, rows, panel);
    case DType::g4_128:
      return pack_each<DType::g4_128, Group<4, 128>>(k, rows, panel);
    case DType::g8_32:
      return pack_each<DType::g8_32, Group<8, 32>>(k, rows, panel);
    case DType::g8_128:
      return pack_each<DType::g8_128, Group<8, 128>>(k, rows, panel);
    case DType::f8_32:
      return pack_f8<DType::f8_32, 32>(k, rows, panel);
    case DType::f8_128:
      return pack_f8<DType::f8_128, 128>(k, rows, panel);
    case DType::nf4:
      return pack_each<DType::nf4, Four>(k, rows, panel);
    case DType::fp4:
      return pack_each<DType::fp4, Four>(k, rows, panel);
    default:
      return;  // panel_layout() has refused it
  }
}

}  // namespace espalier
