// recent_set.h: a set of 64-bit keys that forgets old ones. Fixed memory, O(1).
//
// Each key has one place; a later key of the same place displaces it. So contains() may miss a key that was inserted,
// but says yes only to one that was (up to equal 64-bit keys). Good for explanations, not for decisions.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

// A bijection of 64-bit values that spreads every bit over all (the finaliser of SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Keys that were inserted lately; an older one may be forgotten, none is ever invented.
class RecentSet {
 public:
  void insert(std::uint64_t key) {
    if (places_.empty()) places_.resize(size);
    places_[mix_bits(key) % size] = key | 1;
  }
  bool contains(std::uint64_t key) const { return !places_.empty() && places_[mix_bits(key) % size] == (key | 1); }

 private:
  static constexpr std::size_t size = 8192;
  std::vector<std::uint64_t> places_;  // 0 = empty; the lowest bit of a key is given up to tell it from that
};

}  // namespace espalier
