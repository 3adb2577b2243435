// foreign_blocks.h: blocks of a sequence that lie neither in the tier's files nor in its memory, but with somebody else: what the
// disk tier reads beside its own.
//
// Units:   blocks of the sequence, bytes. Threads: any but the engine's: calls wait. One at a time has them read, but one that was
//          given up may still wait when the next begins.
// Fails:   as the one who has them does. What failed is not asked for again.
#pragma once

#include <limits>
#include <span>

#include "espalier/error.h"

namespace espalier {

// Reads blocks of one sequence.
class ForeignBlocks {
 public:
  virtual ~ForeignBlocks() = default;
  // Waits until block `first_block` is there, or on its way; holds no memory of the tier. How many blocks from there on can be read
  // without waiting for somebody who computes them, one at least.
  virtual Result<int> await(int /*first_block*/) { return std::numeric_limits<int>::max(); }
  // All blocks that `into` has room for, from number `first_block` of the sequence on.
  virtual Result<> read(int first_block, std::span<std::byte> into) = 0;
};

}  // namespace espalier
