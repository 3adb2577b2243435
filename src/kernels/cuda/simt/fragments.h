// fragments.h: how threads read panels for tensor cores: neighbour 4 g + t of 32 has columns 2 g and 2 g + 1 of a panel.
//
// It is what the readers of panels (kernels/cpu/generic/formats.h and those behind it) ask of `Simd`, with two lanes a thread;
// which of the words along k a thread takes, it says by `j`. So a word of a panel is a register of a product's first operand
// (mma_s8), with column 2 g as row g and column 2 g + 1 as row g + 8: two words that lie side by side.
// Include it behind all other headers of kernels/cpu/generic: from here on they are of this kind.
#pragma once

#include "kernels/cuda/simt/simd.h"

#undef ESPALIER_ISA
#define ESPALIER_ISA fragments

namespace espalier::kernels::fragments {

// Two columns of a panel in each thread.
struct Simd {
  struct alignas(8) F {
    float a, b;
  };
  struct alignas(8) B {
    std::uint32_t a, b;  // four bytes each
  };

  ESPALIER_ON_DEVICE static int column() { return espalier::simt::thread() >> 1 & 14; }
  // Two numbers that lie side by side, as one load.
  template <class Two, class T>
  ESPALIER_ON_DEVICE static Two two(const T* p) {
    static_assert(sizeof(Two) == 2 * sizeof(T));
    return *reinterpret_cast<const Two*>(p + column());
  }

  ESPALIER_ON_DEVICE static F zero() { return {0.0f, 0.0f}; }
  ESPALIER_ON_DEVICE static F set1(float x) { return {x, x}; }
  ESPALIER_ON_DEVICE static F add(F x, F y) { return {x.a + y.a, x.b + y.b}; }
  ESPALIER_ON_DEVICE static F sub(F x, F y) { return {x.a - y.a, x.b - y.b}; }
  ESPALIER_ON_DEVICE static F mul(F x, F y) { return {x.a * y.a, x.b * y.b}; }
  ESPALIER_ON_DEVICE static F abs(F x) { return {fabsf(x.a), fabsf(x.b)}; }
  ESPALIER_ON_DEVICE static F bf16_in_order(F x) { return x; }
  ESPALIER_ON_DEVICE static F load(const float* p) { return two<F>(p); }
  ESPALIER_ON_DEVICE static F load_f16(const std::uint16_t* p) {
    const auto both = two<std::uint32_t>(p);
    return {simt::half_to_float(both & 0xffffu), simt::half_to_float(both >> 16)};
  }
  ESPALIER_ON_DEVICE static F load_bf16(const std::uint16_t* p) {
    const auto both = two<std::uint32_t>(p);
    return {simt::float_of_bits(both << 16), simt::float_of_bits(both & 0xffff0000u)};
  }
  ESPALIER_ON_DEVICE static F load_u8(const std::uint8_t* p) {
    const auto both = two<std::uint16_t>(p);
    return {static_cast<float>(both & 255), static_cast<float>(both >> 8)};
  }
  ESPALIER_ON_DEVICE static F load_i8(const std::int8_t* p) {
    const auto both = two<std::uint16_t>(p);
    return {static_cast<float>(static_cast<std::int8_t>(both & 255)),
            static_cast<float>(static_cast<std::int8_t>(both >> 8))};
  }
  ESPALIER_ON_DEVICE static F load_e4m3(const std::uint8_t* p) {
    const auto both = two<std::uint16_t>(p);
    return {simt::e4m3_to_float(both & 255u), simt::e4m3_to_float(both >> 8)};
  }
  // The low and the high four bits of bytes.
  ESPALIER_ON_DEVICE static void load_nibbles(const std::uint8_t* p, F& low, F& high) {
    const auto both = two<std::uint16_t>(p);
    low = {static_cast<float>(both & 15), static_cast<float>(both >> 8 & 15)};
    high = {static_cast<float>(both >> 4 & 15), static_cast<float>(both >> 12)};
  }

  ESPALIER_ON_DEVICE static B bload(const std::uint8_t* p) { return two<B>(reinterpret_cast<const std::uint32_t*>(p)); }
  ESPALIER_ON_DEVICE static B bset1(std::uint8_t x) { return {x * 0x01010101u, x * 0x01010101u}; }
  ESPALIER_ON_DEVICE static B band(B x, B y) { return {x.a & y.a, x.b & y.b}; }
  ESPALIER_ON_DEVICE static B bor(B x, B y) { return {x.a | y.a, x.b | y.b}; }
  ESPALIER_ON_DEVICE static B shift_right(B x, int n) { return {x.a >> n, x.b >> n}; }
  ESPALIER_ON_DEVICE static B shift_left(B x, int n) { return {x.a << n, x.b << n}; }
  ESPALIER_ON_DEVICE static B lookup(B nibbles, const std::uint8_t* table16) {
    return {lookup(nibbles.a, table16), lookup(nibbles.b, table16)};
  }
  ESPALIER_ON_DEVICE static F lookup_floats(B places, const float* table16) {
    return {table16[places.a & 15], table16[places.b & 15]};
  }
  ESPALIER_ON_DEVICE static F as_floats(B x) { return {simt::float_of_bits(x.a), simt::float_of_bits(x.b)}; }
  ESPALIER_ON_DEVICE static F byte_to_float(B x, int i) {
    return {static_cast<float>(x.a >> (8 * i) & 255), static_cast<float>(x.b >> (8 * i) & 255)};
  }

 private:
  // Four bytes of a table: of its lower half and of its upper half, between which the highest bits of the nibbles choose.
  ESPALIER_ON_DEVICE static std::uint32_t lookup(std::uint32_t nibbles, const std::uint8_t* table16) {
    const auto word = [&](int i) {  // put together of constants
      return table16[4 * i] | table16[4 * i + 1] << 8 | table16[4 * i + 2] << 16 |
             static_cast<std::uint32_t>(table16[4 * i + 3]) << 24;
    };
    const std::uint32_t low = nibbles & 0x07070707u, pairs = low | low >> 4;
    const std::uint32_t places = (pairs & 0xffu) | (pairs >> 8 & 0xff00u);
    const std::uint32_t upper = (nibbles >> 3 & 0x01010101u) * 255u;
    return (espalier::simt::pick_bytes(word(0), word(1), places) & ~upper) |
           (espalier::simt::pick_bytes(word(2), word(3), places) & upper);
  }
};

}  // namespace espalier::kernels::fragments
