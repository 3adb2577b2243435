#include "device/step/token_mover.h"

#include <algorithm>

#include "model/executor.h"

namespace espalier::device {

// A room that nothing uses, with the pieces on their way to it.
TokenMover::Room& TokenMover::room(const std::vector<MovedPiece>& pieces, std::size_t bytes, EspalierStream stream) {
  if (used_ == rooms_.size()) settle();
  Room& room = rooms_[used_++];
  const auto grow = [&](Memory& memory, std::size_t wanted, bool of_host) {
    if (memory.size() >= wanted) return;
    memory = {};
    memory = given_by_device(of_host ? device_.allocate_host(wanted) : device_.allocate(wanted));
  };
  const std::size_t pieces_bytes = pieces.size() * sizeof(MovedPiece);
  grow(room.blocks, bytes, false);
  grow(room.pieces, pieces_bytes, false);
  grow(room.pieces_of_host, pieces_bytes, true);
  std::ranges::copy(pieces, room.pieces_of_host.as<MovedPiece>());
  room.count = static_cast<int>(pieces.size());
  device_.copy(room.pieces.data(), room.pieces_of_host.data(), pieces_bytes, stream);
  return room;
}

void TokenMover::move(const Room& pieces, std::byte* blocks, bool out) {
  if (pieces.count == 0) return;
  if (fields_there_.data() == nullptr)
    fields_there_ = given_by_device(device_.upload(std::span<const MovedField>(fields_)));
  device_.run(kEspalierMoveTokens,
              cuda::MoveTokensTask{fields_there_.as<MovedField>(), static_cast<int>(fields_.size()),
                                   pieces.pieces.as<MovedPiece>(), pieces.count, blocks, out});
}

void TokenMover::begin_copy_out(const std::vector<MovedPiece>& pieces, std::span<std::byte> blocks, bool whole) {
  const Room& there = room(pieces, blocks.size(), kEspalierCompute);
  if (!whole) device_.copy(there.blocks.data(), blocks.data(), blocks.size());
  move(there, there.blocks.data(), true);
  device_.order(kEspalierCompute, kEspalierCopies);
  device_.copy(blocks.data(), there.blocks.data(), blocks.size(), kEspalierCopies);
}

void TokenMover::begin_copy_in(const std::vector<MovedPiece>& pieces, std::span<const std::byte> blocks) {
  const Room& there = room(pieces, blocks.size(), kEspalierCopies);
  device_.copy(there.blocks.data(), blocks.data(), blocks.size(), kEspalierCopies);
  device_.order(kEspalierCopies, kEspalierCompute);
  move(there, there.blocks.data(), false);
  device_.order(kEspalierCompute, kEspalierCopies);
}

void TokenMover::copy_within(const std::vector<MovedPiece>& from, const std::vector<MovedPiece>& to,
                             std::size_t bytes) {
  if (used_ + 2 > rooms_.size()) settle();  // both rooms stand until then
  const Room& first = room(from, bytes, kEspalierCompute);
  const Room& then = room(to, 0, kEspalierCompute);
  move(first, first.blocks.data(), true);
  move(then, first.blocks.data(), false);
  device_.order(kEspalierCompute, kEspalierCopies);
}

void TokenMover::settle() {
  if (used_ == 0) return;
  used_ = 0;
  given_by_device(device_.wait(kEspalierCopies));
}

}  // namespace espalier::device
