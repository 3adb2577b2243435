// token_mover.h: gathers what a pool on a device keeps of tokens into blocks of bytes, and scatters it back.
//
// Blocks are laid out as engine/memory/kv_copy.h says. What is begun is gathered and scattered in the order of steps; blocks travel
// beside them, on the stream of copies. Threads: one. Fails: with DeviceFailure.
#pragma once

#include <array>
#include <vector>

#include "device/device.h"
#include "kernels/cuda/token_task.h"

namespace espalier::device {

using cuda::MovedField;
using cuda::MovedPiece;

// Of one pool.
class TokenMover {
 public:
  TokenMover(const Device& device, std::vector<MovedField> fields) : device_(device), fields_(std::move(fields)) {}

  // Blocks of the host's memory stand, and are filled, until settle() returns. whole: all of them comes out of the pool; else
  // what does not stays as it is.
  void begin_copy_out(const std::vector<MovedPiece>& pieces, std::span<std::byte> blocks, bool whole);
  void begin_copy_in(const std::vector<MovedPiece>& pieces, std::span<const std::byte> blocks);
  // From some slots to others, by way of `bytes` of blocks.
  void copy_within(const std::vector<MovedPiece>& from, const std::vector<MovedPiece>& to, std::size_t bytes);
  bool settled() const { return used_ == 0; }
  void settle();

 private:
  struct Room {  // of one call
    Memory blocks, pieces;
    Memory pieces_of_host;
    int count = 0;
  };
  Room& room(const std::vector<MovedPiece>& pieces, std::size_t bytes, EspalierStream stream);
  void move(const Room& pieces, std::byte* blocks, bool out);

  const Device& device_;
  std::vector<MovedField> fields_;
  Memory fields_there_;
  std::array<Room, 4> rooms_;
  std::size_t used_ = 0;  // of these, since settle()
};

}  // namespace espalier::device
