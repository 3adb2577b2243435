// hash_ring.h: servers at many places of a ring each; a key belongs to whoever comes next behind its hash. When one server
// joins or leaves, only keys beside its places move.
// Threads: constant once made. Fails: never. Cost: O(log places).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/load/random.h"

namespace espalier::bench {

class HashRing {
 public:
  static constexpr int kPlaces = 160;  // of each server

  explicit HashRing(int servers) {
    for (int s = 0; s < servers; ++s)
      for (int i = 0; i < kPlaces; ++i)
        places_.push_back({derived_seed(static_cast<std::uint64_t>(s) + 1, static_cast<std::uint64_t>(i)), s});
    std::ranges::sort(places_, {}, &Place::hash);
  }
  int of(std::uint64_t hash) const {
    const auto at = std::ranges::lower_bound(places_, hash, {}, &Place::hash);
    return at == places_.end() ? places_.front().server : at->server;
  }

 private:
  struct Place {
    std::uint64_t hash;
    int server;
  };
  std::vector<Place> places_;
};

}  // namespace espalier::bench
