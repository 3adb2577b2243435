// visibility.h: the rule by which a query sees earlier positions. Units: positions. Threads: a value.
#pragma once

#include <compare>
#include <cstdint>

namespace espalier {

// Which earlier positions a query sees, itself included: all; the last `size` of them (sliding windows); or those of
// its own chunk, chunks beginning at multiples of `size` (Llama 4). None before `begin`.
struct Visibility {
  enum class Rule : std::uint8_t { all, window, chunk };
  Rule rule = Rule::all;
  std::int64_t size = 0;
  std::int64_t begin = 0;
  static constexpr Visibility window(std::int64_t size) {  // 0: all
    return size > 0 ? Visibility{Rule::window, size} : Visibility{};
  }
  static constexpr Visibility chunk(std::int64_t size) {
    return size > 0 ? Visibility{Rule::chunk, size} : Visibility{};
  }
  constexpr std::int64_t first(std::int64_t position) const {
    std::int64_t from = 0;
    if (rule == Rule::chunk) from = position / size * size;
    if (rule == Rule::window && position >= size) from = position - size + 1;
    return from < begin ? begin : from;
  }
  auto operator<=>(const Visibility&) const = default;
};

}  // namespace espalier
