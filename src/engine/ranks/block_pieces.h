// block_pieces.h: where a rank's heads lie in a block of tokens as one process alone would keep it (engine/memory/kv_copy.h).
//
// So what ranks keep on disk or elsewhere is the same bytes at any number of ranks. Heads that several ranks have lie in the
// parts of all of them. Units: bytes. Threads: values. Fails: never.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/memory/kv_pool.h"
#include "model/program/program.h"

namespace espalier {

// Pieces of one rank's blocks, and their places in whole ones.
class BlockPieces {
 public:
  // fields: which of the program's lie in the pool.
  BlockPieces(const Program& program, const std::vector<std::size_t>& fields, KvType type, int rank);
  std::size_t own_bytes() const { return own_bytes_; }      // of a block of the rank
  std::size_t whole_bytes() const { return whole_bytes_; }  // of a whole one
  void put(std::span<const std::byte> own, std::span<std::byte> whole) const;
  void take(std::span<const std::byte> whole, std::span<std::byte> own) const;

 private:
  struct Piece {
    std::size_t own, whole, bytes;
  };
  std::vector<Piece> pieces_;
  std::size_t own_bytes_ = 0, whole_bytes_ = 0;
};

// The program's fields that lie in window slots, or those that do not.
std::vector<std::size_t> fields_in(const KvPools& kv, bool windows);

}  // namespace espalier
