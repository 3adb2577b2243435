// rank_blocks.h: blocks of tokens and states between the ranks' pools and the first rank's tiers (host memory, disk, remote).
//
// The first rank tells the others which slots (rank_leader.h); each copies its own heads, and whole blocks are put together
// there, or taken apart by each. A state is the ranks' states one behind the other.
// Threads: the engine thread, at the same call on all ranks. Fails: as the group says.
#pragma once

#include <vector>

#include "engine/memory/kv_copy.h"
#include "engine/ranks/block_pieces.h"
#include "engine/ranks/rank_leader.h"

namespace espalier {

// One rank's side of it, of one pool.
class RankBlocks {
 public:
  RankBlocks(ranks::Collective& group, const Program& program, const std::vector<std::size_t>& fields, KvType type,
             KvCopier& own);
  std::size_t block_bytes() const { return pieces_.front().whole_bytes(); }
  // to: of the first rank; others give.
  void gather(const ExtentList& slots, std::span<std::byte> to, std::size_t stride);
  // from: of the first rank; others take.
  void spread(std::span<const std::byte> from, std::size_t stride, int first_token, const ExtentList& slots);

 private:
  ranks::Collective& group_;
  KvCopier& own_;
  std::vector<BlockPieces> pieces_;  // of each rank
  std::vector<std::byte> memory_, sent_;
};

// Parts of a state that all ranks have, of a cell.
class RankStates {
 public:
  RankStates(ranks::Collective& group, const StatePool& states);
  std::size_t bytes() const { return ends_.back(); }
  void gather(int cell, std::size_t from, std::span<std::byte> to, std::size_t count);
  void spread(int cell, std::size_t from, std::span<const std::byte> bytes, std::size_t count);

 private:
  // The part of bytes [from, from + count) that a rank has: first of its own, how many, and where they lie among these.
  struct Part {
    std::size_t own = 0, bytes = 0, at = 0;
  };
  Part part_of(int rank, std::size_t from, std::size_t count) const;
  ranks::Collective& group_;
  const StatePool& states_;
  std::vector<std::size_t> ends_;  // of each rank's
  std::vector<std::byte> sent_;
};

// The first rank's copier, for its tiers.
class LeadingCopier final : public SlotCopier {
 public:
  LeadingCopier(RankLeader& leader, RankBlocks blocks, std::optional<RankStates> states)
      : leader_(leader), blocks_(std::move(blocks)), states_(std::move(states)) {}
  std::size_t block_bytes() const { return blocks_.block_bytes(); }
  void copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override;
  void copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
               const ExtentList& slots) override;
  std::size_t state_bytes() const override { return states_ ? states_->bytes() : 0; }
  void copy_state_out(int cell, std::size_t from, std::span<std::byte> to) override;
  void copy_state_in(int cell, std::size_t from, std::span<const std::byte> bytes) override;

 private:
  RankLeader& leader_;
  RankBlocks blocks_;
  std::optional<RankStates> states_;
};

// The same of window slots.
class LeadingWindowCopier final : public WindowCopier {
 public:
  LeadingWindowCopier(RankLeader& leader, RankBlocks blocks) : leader_(leader), blocks_(std::move(blocks)) {}
  std::size_t window_block_bytes() const override { return blocks_.block_bytes(); }
  void copy_window_out(const ExtentList& window_slots, std::span<std::byte> blocks) override;
  void copy_window_in(std::span<const std::byte> blocks, int first_token, const ExtentList& window_slots) override;

 private:
  RankLeader& leader_;
  RankBlocks blocks_;
};

}  // namespace espalier
