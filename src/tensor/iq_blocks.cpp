#include "tensor/iq_blocks.h"

#include <cstring>

#include "tensor/iq_grids.h"

namespace espalier {
namespace {

std::uint16_t u16_at(const std::uint8_t* p, int i) {
  return static_cast<std::uint16_t>(p[2 * i] | p[2 * i + 1] << 8);
}
std::uint32_t u32_at(const std::uint8_t* p, int i) {
  return u16_at(p, 2 * i) | static_cast<std::uint32_t>(u16_at(p, 2 * i + 1)) << 16;
}

constexpr std::int8_t kThree[4] = {8, 25, 43, 0};
constexpr std::int8_t kEight[8] = {4, 12, 20, 28, 36, 44, 52, 62};

// Eight values of two bits each, with their signs.
void put_eight(std::uint16_t point, unsigned signs, std::int8_t* to) {
  for (int i = 0; i < 8; ++i) {
    const std::int8_t size = kThree[point >> (2 * i) & 3];
    to[i] = static_cast<std::int8_t>((signs >> i & 1) != 0 ? -size : size);
  }
}
// Eight thirds, -1 to 1, and an eighth more or less.
void put_eight_thirds(std::uint16_t point, bool less, std::int8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::int8_t>(8 * ((point >> (2 * i) & 3) - 1) + (less ? -1 : 1));
}
// Four values of three bits each.
template <class Size>
void put_four(std::uint16_t point, unsigned signs, std::int8_t* to, Size size) {
  for (int i = 0; i < 4; ++i) {
    const std::int8_t value = size(point >> (3 * i) & 7);
    to[i] = static_cast<std::int8_t>((signs >> i & 1) != 0 ? -value : value);
  }
}

std::uint8_t odd(unsigned scale) {
  return static_cast<std::uint8_t>(2 * scale + 1);
}
unsigned nibble(const std::uint8_t* p, int i) {
  return p[i / 2] >> (4 * (i % 2)) & 15u;
}

}  // namespace

IqValues take_apart(const BlockIQ1_S& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 8; ++s) {
    const unsigned high = u16_at(b.high, s);
    out.scale[2 * s] = out.scale[2 * s + 1] = odd(high >> 12 & 7);
    for (int i = 0; i < 4; ++i) {
      const unsigned place = b.q[4 * s + i] | (high >> (3 * i) & 7) << 8;
      put_eight_thirds(kGridIQ1[place], (high & 0x8000) != 0, out.value + 32 * s + 8 * i);
    }
  }
  return out;
}

IqValues take_apart(const BlockIQ1_M& b) {
  IqValues out;
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= (u16_at(b.scales, i) & 0xf000u) >> (12 - 4 * i);
  out.d = StoredF16::of(f16{static_cast<std::uint16_t>(d)});
  for (int s = 0; s < 16; ++s) {
    out.scale[s] = odd(u16_at(b.scales, s / 4) >> (3 * (s % 4)) & 7u);
    for (int i = 2 * s; i < 2 * s + 2; ++i) {
      const unsigned high = nibble(b.high, i);
      put_eight_thirds(kGridIQ1[b.q[i] | (high & 7) << 8], (high & 8) != 0, out.value + 8 * i);
    }
  }
  return out;
}

IqValues take_apart(const BlockIQ2_XXS& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 8; ++s) {
    const std::uint8_t* q = b.q + 8 * s;
    const std::uint32_t rest = u32_at(q, 1);
    out.scale[2 * s] = out.scale[2 * s + 1] = odd(rest >> 28);
    for (int i = 0; i < 4; ++i)
      put_eight(kGridIQ2_XXS[q[i]], eight_signs(rest >> (7 * i) & 127), out.value + 32 * s + 8 * i);
  }
  return out;
}

IqValues take_apart(const BlockIQ2_XS& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 16; ++s) out.scale[s] = odd(nibble(b.scales, s));
  for (int i = 0; i < 32; ++i) {
    const unsigned q = u16_at(b.q, i);
    put_eight(kGridIQ2_XS[q & 511], eight_signs(q >> 9), out.value + 8 * i);
  }
  return out;
}

IqValues take_apart(const BlockIQ2_S& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 16; ++s) out.scale[s] = odd(nibble(b.scales, s));
  for (int i = 0; i < 32; ++i) {
    const unsigned place = b.q[i] | (b.high[i / 4] >> (2 * (i % 4)) & 3u) << 8;
    put_eight(kGridIQ2_S[place], b.signs[i], out.value + 8 * i);
  }
  return out;
}

IqValues take_apart(const BlockIQ3_XXS& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 8; ++s) {
    const std::uint32_t rest = u32_at(b.scales, s);
    out.scale[2 * s] = out.scale[2 * s + 1] = odd(rest >> 28);
    for (int i = 0; i < 8; ++i) {
      const unsigned signs = eight_signs(rest >> (7 * (i / 2)) & 127) >> (4 * (i % 2));
      put_four(kGridIQ3_XXS[b.q[8 * s + i]], signs, out.value + 32 * s + 4 * i, [](int v) { return kEight[v]; });
    }
  }
  return out;
}

IqValues take_apart(const BlockIQ3_S& b) {
  IqValues out;
  out.d = b.d;
  for (int s = 0; s < 16; ++s) out.scale[s] = odd(nibble(b.scales, s / 2));
  for (int i = 0; i < 64; ++i) {
    const unsigned place = b.q[i] | (b.high[i / 8] >> (i % 8) & 1u) << 8;
    put_four(kGridIQ3_S[place], b.signs[i / 2] >> (4 * (i % 2)), out.value + 4 * i, [](int v) { return 2 * v + 1; });
  }
  return out;
}

// A byte is a fraction of 256ths; each step takes off its first digit of base 3.
void ternary(const BlockTQ1_0& b, std::uint8_t (&q)[256]) {
  static constexpr unsigned kPowers[5] = {1, 3, 9, 27, 81};
  const auto digit = [](std::uint8_t byte, int n) {
    return static_cast<std::uint8_t>(((byte * kPowers[n]) & 255u) * 3 >> 8);
  };
  for (int n = 0; n < 5; ++n) {
    for (int i = 0; i < 32; ++i) q[32 * n + i] = digit(b.q[i], n);
    for (int i = 0; i < 16; ++i) q[160 + 16 * n + i] = digit(b.q[32 + i], n);
  }
  for (int n = 0; n < 4; ++n)
    for (int i = 0; i < 4; ++i) q[240 + 4 * n + i] = digit(b.high[i], n);
}

void ternary(const BlockTQ2_0& b, std::uint8_t (&q)[256]) {
  for (int i = 0; i < 256; ++i) q[i] = b.q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

}  // namespace espalier
