// checked.h: arithmetic on numbers from outside (files, requests) that says when it would overflow.
// Fails: std::nullopt, never a wrapped value. Use these for every count, offset and size read from a file or a body.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace espalier {

template <class To, class From>
constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The next multiple of `alignment` (a power of two) at or above `value`.
inline std::optional<std::uint64_t> checked_align(std::uint64_t value, std::uint64_t alignment) {
  if (!std::has_single_bit(alignment)) return std::nullopt;
  auto raised = checked_add(value, alignment - 1);
  if (!raised) return std::nullopt;
  return *raised & ~(alignment - 1);
}

}  // namespace espalier
