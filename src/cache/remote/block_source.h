// block_source.h: where blocks of sequences can be had that this process did not compute: a store that servers share, or
// another server. Files and the host's memory are the disk tier's own (cache/disk/tier_files.h).
//
// A sequence is given with its tokens and with their names, so that a source may look up either.
// Units:   blocks, bytes; a block takes `stride` bytes. Threads: one at a time; calls wait, at most until the given time.
// Fails:   timeout, network (refused, closed, garbled), unauthorized, unsupported (a kind of server that cannot be used),
//          unavailable (it is starting, say). After a failure the next call begins anew. What is damaged is no failure: it is
//          told, and counts as not there.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/remote/block_chain.h"
#include "espalier/error.h"

namespace espalier {

// Answers for blocks by their place in a sequence.
class BlockSource {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~BlockSource() = default;

  // For each block from `first` on, whether it is there.
  virtual Result<std::vector<bool>> find(const BlockChain& chain, int first, Time until) = 0;

  struct Read {
    int blocks = 0;      // so many, from the first on, were there and are right
    std::string damage;  // what is wrong with the next one; empty: it is not there, or all were
  };
  // As many blocks from `first` on as `into` holds.
  virtual Result<Read> read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) = 0;

  struct Kept {
    int written = 0, known = 0;  // blocks; known: others had brought them
    std::string refused;         // why the rest is not taken, though all else works: "OOM ..."; empty: it is
  };
  // Keeps blocks from `first` on for others.
  virtual Result<Kept> keep(const BlockChain& chain, int first, std::span<const std::byte> blocks, Time until) = 0;
};

}  // namespace espalier
