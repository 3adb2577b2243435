// values_of_all.h: one value of each rank, known to all.
//
// Threads: as Collective::exchange(); all ranks call alike. Fails: as the group says.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "ranks/collective.h"

namespace espalier::ranks {

// By rank.
template <class T>
std::vector<T> values_of_all(Collective& group, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(group.outgoing(sizeof own), &own, sizeof own);
  group.exchange(std::vector<std::size_t>(static_cast<std::size_t>(group.size()), sizeof own));
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  for (int rank = 0; rank < group.size(); ++rank)
    std::memcpy(&all[static_cast<std::size_t>(rank)], group.incoming(rank), sizeof(T));
  return all;
}

}  // namespace espalier::ranks
