// token_mover.h: gathers what a pool on a device keeps of tokens into blocks of bytes, and scatters it back.
//
// Blocks are laid out as engine/memory/kv_copy.h says. Threads: one. Fails: with DeviceFailure.
#pragma once

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

  // Blocks of the host's memory. Of blocks that get only some tokens the others stay.
  void copy_out(const std::vector<MovedPiece>& pieces, std::span<std::byte> blocks);
  void copy_in(const std::vector<MovedPiece>& pieces, std::span<const std::byte> blocks);
  // From some slots to others, by way of `bytes` of blocks.
  void copy_within(const std::vector<MovedPiece>& from, const std::vector<MovedPiece>& to, std::size_t bytes);

 private:
  void move(const std::vector<MovedPiece>& pieces, bool out);
  std::byte* room(std::size_t bytes);

  const Device& device_;
  std::vector<MovedField> fields_;
  Memory fields_there_, pieces_there_, blocks_there_;
};

}  // namespace espalier::device
