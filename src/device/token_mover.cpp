#include "device/token_mover.h"

#include "model/executor.h"

namespace espalier::device {

std::byte* TokenMover::room(std::size_t bytes) {
  if (blocks_there_.size() < bytes) {
    blocks_there_ = {};
    blocks_there_ = given_by_device(device_.allocate(bytes));
  }
  return blocks_there_.data();
}

void TokenMover::move(const std::vector<MovedPiece>& pieces, bool out) {
  if (pieces.empty()) return;
  if (fields_there_.data() == nullptr)
    fields_there_ = given_by_device(device_.upload(std::span<const MovedField>(fields_)));
  pieces_there_ = given_by_device(device_.upload(std::span<const MovedPiece>(pieces)));
  device_.run(
      kEspalierMoveTokens,
      cuda::MoveTokensTask{fields_there_.as<MovedField>(), static_cast<int>(fields_.size()),
                           pieces_there_.as<MovedPiece>(), static_cast<int>(pieces.size()), blocks_there_.data(), out});
}

void TokenMover::copy_out(const std::vector<MovedPiece>& pieces, std::span<std::byte> blocks) {
  std::byte* const there = room(blocks.size());
  device_.copy(there, blocks.data(), blocks.size());
  move(pieces, true);
  device_.copy(blocks.data(), there, blocks.size());
  given_by_device(device_.wait());
}

void TokenMover::copy_in(const std::vector<MovedPiece>& pieces, std::span<const std::byte> blocks) {
  device_.copy(room(blocks.size()), blocks.data(), blocks.size());
  move(pieces, false);
  given_by_device(device_.wait());
}

void TokenMover::copy_within(const std::vector<MovedPiece>& from, const std::vector<MovedPiece>& to,
                             std::size_t bytes) {
  room(bytes);
  move(from, true);
  given_by_device(device_.wait());
  move(to, false);
  given_by_device(device_.wait());
}

}  // namespace espalier::device
