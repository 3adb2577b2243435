// kv_rounding.h: how keys and values are rounded to elements of eight bits. Threads: any. Fails: never.
#pragma once

#include <cstdint>

#include "kernels/attention/kv_layout.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

// The largest number of a type that has scales.
ESPALIER_LANES inline float largest_of(KvType type) {
  return type == KvType::i8 ? 127.0f : type == KvType::f8_e4m3 ? 448.0f : 57344.0f;
}

// The nearest float of eight bits, ties to even. Callers scale so that |x| is at most `largest`.
ESPALIER_LANES inline std::uint8_t float_to_f8(float x, int mantissa_bits, float largest) {
  const std::uint8_t sign = x < 0.0f ? 0x80 : 0;
  float a = x < 0.0f ? -x : x;
  if (!(a < largest)) a = largest;
  const int bias = mantissa_bits == 3 ? 7 : 15;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &a, 4);
  int exponent = static_cast<int>(bits >> 23) - 127;
  if (exponent < 1 - bias) exponent = 1 - bias;  // subnormals share the smallest exponent
  const auto unit_bits = static_cast<std::uint32_t>(exponent - mantissa_bits + 127) << 23;
  float unit;  // the grid's step at this exponent
  __builtin_memcpy(&unit, &unit_bits, 4);
  const auto steps = static_cast<std::uint32_t>(__builtin_nearbyintf(a / unit));
  // steps counts units, 2^mantissa_bits of which make the exponent's power of two: codes are consecutive integers.
  const auto code = steps + (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa_bits);
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace espalier::kernels::ESPALIER_ISA
