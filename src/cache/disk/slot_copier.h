// slot_copier.h: what tiers of the prefix cache need of a pool: keys and values between slots and blocks of bytes.
// Units: tokens, blocks of kBlockTokens tokens, bytes. Threads: the engine thread. Fails: as the pool's memory does.
#pragma once

#include <cstddef>
#include <span>

#include "cache/slots/extent.h"

namespace espalier {

// Moves keys and values between slots and blocks of bytes; the form of a block is its business.
class SlotCopier {
 public:
  virtual ~SlotCopier() = default;
  // Block i of `blocks` begins at i x stride and gets the 16 slots from 16 i on; of the last one perhaps fewer.
  virtual void copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) = 0;
  // The slots get the tokens of the blocks from number `first_token` on.
  virtual void copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                       const ExtentList& slots) = 0;
  // The same, of a pool that others copy: slots may be used at once, but blocks must stand, and are only there, when settle()
  // returns. Where settled() they are.
  virtual void begin_copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) {
    copy_out(slots, blocks, stride);
  }
  virtual void begin_copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                             const ExtentList& slots) {
    copy_in(blocks, stride, first_token, slots);
  }
  virtual bool settled() const { return true; }
  virtual void settle() {}
  // Bytes of a cell's state, 0 where the model keeps none, and some of them from `from` on, out and in.
  virtual std::size_t state_bytes() const { return 0; }
  virtual void copy_state_out(int /*cell*/, std::size_t /*from*/, std::span<std::byte> /*to*/) {}
  virtual void copy_state_in(int /*cell*/, std::size_t /*from*/, std::span<const std::byte> /*bytes*/) {}
};

}  // namespace espalier
