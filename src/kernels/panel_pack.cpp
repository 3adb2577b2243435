#include "kernels/panel_pack.h"

#include <cstring>

#include "tensor/quant_blocks.h"

namespace espalier {
namespace {

// One block of one column, spelled out: what every quantised format has in common.
struct Spelled {
  StoredF16 d{}, m{};
  std::uint8_t scales[16] = {};  // per sub-block (signed formats: as int8)
  std::uint8_t mins[16] = {};
  std::uint8_t codes[256] = {};  // unsigned, zero point not taken off
};

int nibble(const std::uint8_t* q, int i) {
  return (q[i % 16] >> (i / 16 * 4)) & 15;
}  // 32 values, low first
int nibble_k(const std::uint8_t* q, int i) {
  return (q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
}
int two_bits(const std::uint8_t* q, int i) {
  return (q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}
int fifth(const std::uint8_t (&high)[4], int i) {
  return ((high[i / 8] >> (i % 8)) & 1) << 4;
}

template <class Code>
void fill_codes(Spelled& out, int n, Code code) {
  for (int i = 0; i < n; ++i) out.codes[i] = static_cast<std::uint8_t>(code(i));
}

void spell(const BlockQ8_0& b, Spelled& out) {
  out.d = b.d;
  fill_codes(out, 32, [&](int i) { return b.q[i] + 128; });
}
void spell(const BlockQ4_0& b, Spelled& out) {
  out.d = b.d;
  fill_codes(out, 32, [&](int i) { return nibble(b.q, i); });
}
void spell(const BlockIQ4_NL& b, Spelled& out) {
  out.d = b.d;
  fill_codes(out, 32, [&](int i) { return nibble(b.q, i); });
}
void spell(const BlockQ4_1& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  fill_codes(out, 32, [&](int i) { return nibble(b.q, i); });
}
void spell(const BlockQ5_0& b, Spelled& out) {
  out.d = b.d;
  fill_codes(out, 32, [&](int i) { return nibble(b.q, i) | fifth(b.high, i); });
}
void spell(const BlockQ5_1& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  fill_codes(out, 32, [&](int i) { return nibble(b.q, i) | fifth(b.high, i); });
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
  fill_codes(out, 256, [&](int i) { return nibble_k(b.q, i); });
}
void spell(const BlockQ5_K& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  spell_scales_k4(b.scales, out);
  fill_codes(out, 256, [&](int i) { return nibble_k(b.q, i) | ((b.high[i % 32] >> (i / 32)) & 1) << 4; });
}
void spell(const BlockQ6_K& b, Spelled& out) {
  out.d = b.d;
  std::memcpy(out.scales, b.scales, 16);
  fill_codes(out, 256, [&](int i) {
    return ((b.low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15) | two_bits(b.high, i) << 4;
  });
}
void spell(const BlockQ3_K& b, Spelled& out) {
  out.d = b.d;
  for (int s = 0; s < 16; ++s) out.scales[s] = static_cast<std::uint8_t>(scale_q3_k(b.scales, s) - 32);
  fill_codes(out, 256, [&](int i) { return two_bits(b.q, i) | ((b.high[i % 32] >> (i / 32)) & 1) << 2; });
}
void spell(const BlockQ2_K& b, Spelled& out) {
  out.d = b.d;
  out.m = b.m;
  for (int s = 0; s < 16; ++s) out.scales[s] = b.scales[s];  // both nibbles
  fill_codes(out, 256, [&](int i) { return two_bits(b.q, i); });
}
void spell(const BlockIQ4_XS& b, Spelled& out) {
  out.d = b.d;
  for (int s = 0; s < 8; ++s) out.scales[s] = static_cast<std::uint8_t>(scale_iq4_xs(b, s) - 32);
  fill_codes(out, 256, [&](int i) { return nibble(b.q + i / 32 * 16, i % 32); });
}

// --- the parts of a panel block, column n at a time ---

class BlockWriter {
 public:
  BlockWriter(std::uint8_t* block, int column) : at_(block), n_(column) {}

  void half(StoredF16 value) {
    std::memcpy(at_ + 2 * n_, &value, 2);
    at_ += 32;
  }
  void byte(std::uint8_t value) {
    at_[n_] = value;
    at_ += 16;
  }
  void bytes(const std::uint8_t* codes) {  // [8][16][4]
    for (int k = 0; k < 32; ++k) at_[64 * (k / 4) + 4 * n_ + k % 4] = codes[k];
    at_ += 512;
  }
  void nibbles(const std::uint8_t* codes) {  // the low four bits of 32 codes
    for (int k = 0; k < 16; ++k)
      at_[64 * (k / 4) + 4 * n_ + k % 4] = static_cast<std::uint8_t>((codes[k] & 15) | (codes[k + 16] & 15) << 4);
    at_ += 256;
  }
  void one_bit(const std::uint8_t* codes, int bit) {
    std::uint32_t word = 0;
    for (int k = 0; k < 32; ++k) word |= static_cast<std::uint32_t>((codes[k] >> bit) & 1) << (8 * (k % 4) + k / 4);
    put(word);
  }
  void two_bits(const std::uint8_t* codes, int bit) {
    for (int half = 0; half < 2; ++half) {
      std::uint32_t word = 0;
      for (int k = 0; k < 16; ++k)
        word |= static_cast<std::uint32_t>((codes[16 * half + k] >> bit) & 3) << (8 * (k % 4) + 2 * (k / 4));
      put(word);
    }
  }

 private:
  void put(std::uint32_t word) {
    std::memcpy(at_ + 4 * n_, &word, 4);
    at_ += 64;
  }
  std::uint8_t* at_;
  int n_;
};

void write_sub_block(DType type, const Spelled& s, int sub, BlockWriter& out) {
  const std::uint8_t* codes = s.codes + 32 * sub;
  switch (type) {
    case DType::q4_k:
    case DType::q5_k:
      out.byte(s.scales[sub]);
      out.byte(s.mins[sub]);
      if (type == DType::q5_k) out.one_bit(codes, 4);
      return out.nibbles(codes);
    case DType::iq4_xs:
      out.byte(s.scales[sub]);
      return out.nibbles(codes);
    default:
      break;
  }
  out.byte(s.scales[2 * sub]);
  out.byte(s.scales[2 * sub + 1]);
  if (type == DType::q6_k) {
    out.two_bits(codes, 4);
    out.nibbles(codes);
  } else {
    if (type == DType::q3_k) out.one_bit(codes, 2);
    out.two_bits(codes, 0);
  }
}

void write_block(DType type, const Spelled& s, std::uint8_t* block, int column) {
  BlockWriter out(block, column);
  out.half(s.d);
  switch (type) {
    case DType::q8_0:
      return out.bytes(s.codes);
    case DType::q4_0:
    case DType::iq4_nl:
      return out.nibbles(s.codes);
    case DType::q5_0:
      out.one_bit(s.codes, 4);
      return out.nibbles(s.codes);
    case DType::q4_1:
    case DType::q5_1:
      out.half(s.m);
      if (type == DType::q5_1) out.one_bit(s.codes, 4);
      return out.nibbles(s.codes);
    case DType::q2_k:
    case DType::q4_k:
    case DType::q5_k:
      out.half(s.m);
      break;
    default:
      break;
  }
  for (int sub = 0; sub < 8; ++sub) write_sub_block(type, s, sub, out);
}

template <class Block>
void pack_blocks(DType type, std::int64_t k, const std::span<const std::byte> (&rows)[kPanelColumns],
                 std::uint8_t* panel) {
  const PanelLayout layout = panel_layout(type).value();
  const Block zero{};  // of a missing column: d = 0 (and m = 0), so that every value decodes to 0
  for (std::int64_t block = 0; block * layout.block_k < k; ++block, panel += layout.block_bytes)
    for (int column = 0; column < kPanelColumns; ++column) {
      const auto* stored = reinterpret_cast<const Block*>(rows[column].data());  // bytes only, alignment 1
      Spelled spelled;
      spell(rows[column].empty() ? zero : stored[block], spelled);
      write_block(type, spelled, panel, column);
    }
}

// Element (k, column) of a float type; bf16 lies in pairs along k.
void pack_plain(int bytes, bool pairs, std::int64_t k, const std::span<const std::byte> (&rows)[kPanelColumns],
                std::uint8_t* panel) {
  const std::int64_t padded = pairs ? (k + kBf16Block - 1) / kBf16Block * kBf16Block : k;
  std::memset(panel, 0, static_cast<std::size_t>(padded * kPanelColumns * bytes));
  for (int column = 0; column < kPanelColumns; ++column) {
    if (rows[column].empty()) continue;
    const std::byte* from = rows[column].data();
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = pairs ? (i / 2 * kPanelColumns + column) * 2 + i % 2 : i * kPanelColumns + column;
      std::memcpy(panel + at * bytes, from + i * bytes, static_cast<std::size_t>(bytes));
    }
  }
}

}  // namespace

void pack_panel(DType type, std::int64_t k, const std::span<const std::byte> (&rows)[kPanelColumns],
                std::uint8_t* panel) {
  switch (type) {
    case DType::f32:
      return pack_plain(4, false, k, rows, panel);
    case DType::f16:
      return pack_plain(2, false, k, rows, panel);
    case DType::bf16:
      return pack_plain(2, true, k, rows, panel);
    case DType::q8_0:
      return pack_blocks<BlockQ8_0>(type, k, rows, panel);
    case DType::q4_0:
      return pack_blocks<BlockQ4_0>(type, k, rows, panel);
    case DType::q4_1:
      return pack_blocks<BlockQ4_1>(type, k, rows, panel);
    case DType::q5_0:
      return pack_blocks<BlockQ5_0>(type, k, rows, panel);
    case DType::q5_1:
      return pack_blocks<BlockQ5_1>(type, k, rows, panel);
    case DType::q2_k:
      return pack_blocks<BlockQ2_K>(type, k, rows, panel);
    case DType::q3_k:
      return pack_blocks<BlockQ3_K>(type, k, rows, panel);
    case DType::q4_k:
      return pack_blocks<BlockQ4_K>(type, k, rows, panel);
    case DType::q5_k:
      return pack_blocks<BlockQ5_K>(type, k, rows, panel);
    case DType::q6_k:
      return pack_blocks<BlockQ6_K>(type, k, rows, panel);
    case DType::iq4_nl:
      return pack_blocks<BlockIQ4_NL>(type, k, rows, panel);
    case DType::iq4_xs:
      return pack_blocks<BlockIQ4_XS>(type, k, rows, panel);
    default:
      return;  // panel_layout() has refused it
  }
}

}  // namespace espalier
