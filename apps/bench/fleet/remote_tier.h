// remote_tier.h: a store of blocks of keys and values that all servers of a fleet share, as Redis would be: what it holds,
// and what its link takes.
//
// A block is 16 tokens of a prefix, named by the hash of the whole prefix up to its end. What was used longest ago leaves
// a full store. Reads and writes go over links of their own directions, one behind the other.
// Units:   blocks, bytes, seconds. Threads: one. Fails: never.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/fleet/link.h"
#include "espalier/types.h"

namespace espalier::bench {

inline constexpr int kRemoteBlock = 16;  // tokens, as the disk tier has them

// Of every whole block of the tokens.
std::vector<std::uint64_t> block_hashes(std::span<const TokenId> tokens);

class RemoteTier {
 public:
  struct Settings {
    Link link;
    double capacity_bytes = 64e9;
    double block_bytes = 0;
  };
  explicit RemoteTier(const Settings& settings);

  int held(std::span<const std::uint64_t> blocks);                // so many from the first on; counts as a use
  int remember(std::span<const std::uint64_t> blocks);            // has them from now on; how many it lacked
  void store(std::span<const std::uint64_t> blocks, double now);  // those that it lacks are written

  SharedLink& reads() { return reads_; }
  const SharedLink& reads() const { return reads_; }
  const SharedLink& writes() const { return writes_; }
  double block_bytes() const { return settings_.block_bytes; }
  std::size_t blocks() const { return place_.size(); }

 private:
  using Index = std::uint32_t;
  struct Block {
    std::uint64_t hash = 0;
    Index newer = 0, older = 0;
  };
  struct Mixed {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const { return hash; }
  };
  void unlink(Index block);
  void make_newest(Index block);

  const Settings settings_;
  const std::size_t most_;
  SharedLink reads_, writes_;
  boost::unordered_flat_map<std::uint64_t, Index, Mixed> place_;
  std::vector<Block> blocks_;  // 0: the end of the list
};

}  // namespace espalier::bench
