// kept_bytes.h: what a token and a sequence's state take on a rank, and on the rank that keeps most of each: pools are as large on all
// ranks, so they must fit there. A stage of a pipeline may keep only one of both.
// Units: bytes. Threads: as Collective::exchange(); all ranks call most_kept() and least_room() alike. Fails: as the group says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/memory/state_pool.h"
#include "model/decoder.h"
#include "ranks/values_of_all.h"

namespace espalier {

// Of one token, and of one state with its padding; of a model without states 0.
struct KeptBytes {
  std::size_t token = 0, state = 0;
};

inline KeptBytes kept_bytes(const Decoder& decoder, KvType type) {
  const std::size_t floats = decoder.keeps().state_floats;
  return {CacheLayout{decoder.keeps().per_token, type}.bytes_per_token(),
          floats == 0 ? 0 : StatePool::stride_bytes(floats)};
}

inline KeptBytes most_kept(ranks::Collective& group, const KeptBytes& own) {
  KeptBytes most;
  for (const KeptBytes& of_rank : ranks::values_of_all(group, own)) {
    most.token = std::max(most.token, of_rank.token);
    most.state = std::max(most.state, of_rank.state);
  }
  return most;
}

// The memory that is left for pools on the rank that has least.
inline std::int64_t least_room(ranks::Collective& group, std::int64_t own) {
  return std::ranges::min(ranks::values_of_all(group, own));
}

}  // namespace espalier
