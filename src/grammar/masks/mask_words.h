// mask_words.h: a set of tokens as a bitset, bit i % 32 of word i / 32 for token i.
// Two of them must be of the same size where one changes the other.
// Threads: values. Fails: never.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "espalier/types.h"

namespace espalier::grammar {

using MaskWords = std::vector<std::uint32_t>;

inline std::int64_t count_tokens(const MaskWords& mask) {
  std::int64_t count = 0;
  for (const std::uint32_t word : mask) count += std::popcount(word);
  return count;
}

inline void set_bits(MaskWords& mask, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    const auto id = static_cast<std::uint32_t>(token);
    mask[id / 32] |= 1u << (id % 32);
  }
}

inline bool has_bit(const MaskWords& mask, TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  return ((mask[id / 32] >> (id % 32)) & 1) != 0;
}

// By blocks of a fixed size, which every compiler makes wide instructions of.
template <class Of>
void combine(MaskWords& mask, const MaskWords& other, Of of) {
  constexpr std::size_t kBlock = 16;
  std::size_t i = 0;
  for (; i + kBlock <= mask.size(); i += kBlock) {
    std::array<std::uint64_t, kBlock / 2> all, with;
    std::memcpy(all.data(), mask.data() + i, sizeof all);
    std::memcpy(with.data(), other.data() + i, sizeof with);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = of(all[k], with[k]);
    std::memcpy(mask.data() + i, all.data(), sizeof all);
  }
  for (; i < mask.size(); ++i) mask[i] = static_cast<std::uint32_t>(of(mask[i], other[i]));
}

inline void unite(MaskWords& mask, const MaskWords& more) {
  combine(mask, more, [](std::uint64_t all, std::uint64_t with) { return all | with; });
}

// Without those of `fewer`.
inline void subtract(MaskWords& mask, const MaskWords& fewer) {
  combine(mask, fewer, [](std::uint64_t all, std::uint64_t with) { return all & ~with; });
}

inline void clear_bits(MaskWords& mask, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    const auto id = static_cast<std::uint32_t>(token);
    mask[id / 32] &= ~(1u << (id % 32));
  }
}

}  // namespace espalier::grammar
