// hashing.h: how the tables of this module mix numbers into a hash. Threads: pure. Fails: never.
#pragma once

#include <cstdint>

namespace espalier::grammar {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  return hash ^ (hash >> 32);
}

}  // namespace espalier::grammar
