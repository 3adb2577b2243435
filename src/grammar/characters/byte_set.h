// byte_set.h: a set of byte values. Threads: a value. Fails: never.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace espalier::grammar {

// 256 bits, one for each byte value.
class ByteSet {
 public:
  constexpr ByteSet() = default;
  static constexpr ByteSet all() { return ~ByteSet(); }
  static constexpr ByteSet of(unsigned byte) {
    ByteSet set;
    set.add(byte);
    return set;
  }
  static constexpr ByteSet range(unsigned low, unsigned high) {  // both included
    ByteSet set;
    for (unsigned byte = low; byte <= high; ++byte) set.add(byte);
    return set;
  }

  constexpr void add(unsigned byte) { words_[byte / 64] |= std::uint64_t{1} << (byte % 64); }
  constexpr void remove(unsigned byte) { words_[byte / 64] &= ~(std::uint64_t{1} << (byte % 64)); }
  constexpr bool contains(unsigned byte) const { return (words_[byte / 64] >> (byte % 64)) & 1; }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr int size() const {
    return std::popcount(words_[0]) + std::popcount(words_[1]) + std::popcount(words_[2]) + std::popcount(words_[3]);
  }
  constexpr unsigned first() const {  // Requires: not empty
    unsigned word = 0;
    while (words_[word] == 0) ++word;
    return word * 64 + static_cast<unsigned>(std::countr_zero(words_[word]));
  }
  template <class Visit>
  constexpr void each(Visit visit) const {
    for (unsigned word = 0; word < 4; ++word) {
      for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
        visit(word * 64 + static_cast<unsigned>(std::countr_zero(rest)));
      }
    }
  }

  constexpr ByteSet operator~() const { return ByteSet{~words_[0], ~words_[1], ~words_[2], ~words_[3]}; }
  constexpr ByteSet operator&(const ByteSet& o) const {
    return {words_[0] & o.words_[0], words_[1] & o.words_[1], words_[2] & o.words_[2], words_[3] & o.words_[3]};
  }
  constexpr ByteSet operator|(const ByteSet& o) const {
    return {words_[0] | o.words_[0], words_[1] | o.words_[1], words_[2] | o.words_[2], words_[3] | o.words_[3]};
  }
  constexpr ByteSet operator-(const ByteSet& o) const { return *this & ~o; }
  constexpr bool within(const ByteSet& o) const { return (*this - o).empty(); }
  constexpr bool operator==(const ByteSet&) const = default;

  const std::array<std::uint64_t, 4>& words() const { return words_; }

 private:
  constexpr ByteSet(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) : words_{a, b, c, d} {}
  std::array<std::uint64_t, 4> words_{};
};

}  // namespace espalier::grammar
