// cache_event.h: what others are told of the prefix cache: which whole blocks of tokens came and went, and where they lie.
//
// A block is known by a number that follows from its tokens, all tokens before it and the name space, so equal prefixes
// have equal numbers in every server. The name space itself is not told, but for the adapter in it.
// Units: blocks of kCacheBlockTokens tokens. Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/types.h"

namespace espalier {

inline constexpr int kCacheBlockTokens = 16;

// Where keys and values lie.
enum class CacheTier { memory, disk };

// One change of the cache.
struct CacheEvent {
  enum class Kind { stored, removed, cleared };  // cleared: no block is held any more, on any tier
  Kind kind = Kind::stored;
  CacheTier tier = CacheTier::memory;
  std::vector<std::uint64_t> blocks;    // consecutive ones of one sequence
  std::optional<std::uint64_t> parent;  // stored: the block before the first; none: they begin the sequence
  std::vector<TokenId> tokens;          // stored: of all these blocks
  std::string scope = {};               // stored: the name space, for who makes the next one of it
  std::string adapter = {};             // stored: what the adapter is called whose values these are; empty: none
  bool operator==(const CacheEvent&) const = default;
};

}  // namespace espalier
