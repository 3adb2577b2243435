// values_of_all.h: one value of each rank, or as many bytes, known to all.
//
// Threads: as Collective::exchange(); all ranks call alike. Fails: as the group says.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "ranks/collective.h"

namespace espalier::ranks {

// Each rank's `bytes`, one behind the other at `all`.
inline void bytes_of_all(Collective& group, const void* own, void* all, std::size_t bytes) {
  std::memcpy(group.outgoing(bytes), own, bytes);
  group.exchange(std::vector<std::size_t>(static_cast<std::size_t>(group.size()), bytes));
  for (int rank = 0; rank < group.size(); ++rank)
    std::memcpy(static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes, group.incoming(rank), bytes);
}

// By rank.
template <class T>
std::vector<T> values_of_all(Collective& group, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  bytes_of_all(group, &own, all.data(), sizeof own);
  return all;
}

// Leaves of each byte the bits that all ranks have there; all have as many bytes.
inline void keep_common_bits(Collective& group, std::vector<unsigned char>& bits) {
  if (bits.empty()) return;
  std::vector<unsigned char> all(bits.size() * static_cast<std::size_t>(group.size()));
  bytes_of_all(group, bits.data(), all.data(), bits.size());
  for (std::size_t i = 0; i < all.size(); ++i) bits[i % bits.size()] &= all[i];
}

}  // namespace espalier::ranks
