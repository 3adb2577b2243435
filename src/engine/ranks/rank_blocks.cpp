#include "engine/ranks/rank_blocks.h"

#include <algorithm>
#include <cstring>

#include "ranks/values_of_all.h"

namespace espalier {
namespace {

// Of a rank at once.
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

// Blocks that tokens from number `first` of the first block on take.
std::size_t blocks_of(int first, int tokens) {
  return static_cast<std::size_t>((first + tokens + kBlockTokens - 1) / kBlockTokens);
}

}  // namespace

RankBlocks::RankBlocks(ranks::Collective& group, const Program& program, const std::vector<std::size_t>& fields,
                       KvType type, KvCopier& own)
    : group_(group), own_(own) {
  for (int rank = 0; rank < group.size(); ++rank) pieces_.emplace_back(program, fields, type, rank);
}

void RankBlocks::gather(const ExtentList& slots, std::span<std::byte> to, std::size_t stride) {
  const std::size_t blocks = blocks_of(0, slots.length()), whole = block_bytes();
  const int own = group_.rank();
  const std::size_t mine = pieces_[static_cast<std::size_t>(own)].own_bytes();
  memory_.resize(blocks * mine);
  own_.copy_out(slots, memory_, mine);
  const std::size_t at_once = std::max<std::size_t>(1, std::min(kMostBytes, group_.max_part_bytes()) / whole);
  for (std::size_t begin = 0; begin < blocks; begin += at_once) {
    const std::size_t count = std::min(at_once, blocks - begin);
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < group_.size(); ++rank)
      bytes.push_back(rank == 0 ? 0 : count * pieces_[static_cast<std::size_t>(rank)].own_bytes());
    if (own != 0) std::memcpy(group_.outgoing(count * mine), memory_.data() + begin * mine, count * mine);
    group_.exchange(bytes);
    for (std::size_t i = 0; own == 0 && i < count; ++i) {
      const std::span<std::byte> block = to.subspan((begin + i) * stride, stride);
      std::ranges::fill(block.subspan(whole), std::byte{0});
      for (int rank = 0; rank < group_.size(); ++rank) {
        const BlockPieces& pieces = pieces_[static_cast<std::size_t>(rank)];
        const std::byte* from =
            rank == 0 ? memory_.data() + (begin + i) * mine : group_.incoming(rank) + i * pieces.own_bytes();
        pieces.put({from, pieces.own_bytes()}, block);
      }
    }
  }
}

void RankBlocks::spread(std::span<const std::byte> from, std::size_t stride, int first_token, const ExtentList& slots) {
  const std::size_t whole = block_bytes();
  const auto first = static_cast<std::size_t>(first_token / kBlockTokens), end = blocks_of(first_token, slots.length());
  const BlockPieces& pieces = pieces_[static_cast<std::size_t>(group_.rank())];
  const std::size_t mine = pieces.own_bytes();
  sent_.resize((end - first) * whole);
  if (group_.rank() == 0)
    for (std::size_t i = first; i < end; ++i)
      std::memcpy(sent_.data() + (i - first) * whole, from.data() + i * stride, whole);
  group_.broadcast(0, std::span<std::byte>(sent_));
  memory_.resize((end - first) * mine);
  for (std::size_t i = 0; i < end - first; ++i)
    pieces.take({sent_.data() + i * whole, whole}, {memory_.data() + i * mine, mine});
  own_.copy_in(memory_, mine, first_token % kBlockTokens, slots);
}

RankStates::RankStates(ranks::Collective& group, const StatePool& states) : group_(group), states_(states) {
  for (const std::size_t bytes : ranks::values_of_all(group, states.cell_bytes()))
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + bytes);
}

RankStates::Part RankStates::part_of(int rank, std::size_t from, std::size_t count) const {
  const std::size_t begin = rank == 0 ? 0 : ends_[static_cast<std::size_t>(rank) - 1],
                    end = ends_[static_cast<std::size_t>(rank)];
  const std::size_t first = std::max(begin, from), last = std::min(end, from + count);
  if (first >= last) return {};
  return {first - begin, last - first, first - from};
}

void RankStates::gather(int cell, std::size_t from, std::span<std::byte> to, std::size_t count) {
  std::vector<std::size_t> bytes;
  for (int rank = 0; rank < group_.size(); ++rank) bytes.push_back(rank == 0 ? 0 : part_of(rank, from, count).bytes);
  const Part mine = part_of(group_.rank(), from, count);
  if (group_.rank() != 0)
    states_.read(cell, mine.own, {group_.outgoing(mine.bytes), mine.bytes});
  else
    states_.read(cell, mine.own, to.subspan(mine.at, mine.bytes));
  group_.exchange(bytes);
  for (int rank = 1; group_.rank() == 0 && rank < group_.size(); ++rank)
    if (const Part part = part_of(rank, from, count); part.bytes > 0)
      std::memcpy(to.data() + part.at, group_.incoming(rank), part.bytes);
}

void RankStates::spread(int cell, std::size_t from, std::span<const std::byte> bytes, std::size_t count) {
  sent_.assign(bytes.begin(), bytes.end());
  sent_.resize(count);
  group_.broadcast(0, std::span<std::byte>(sent_));
  const Part mine = part_of(group_.rank(), from, count);
  states_.write(cell, mine.own, {sent_.data() + mine.at, mine.bytes});
}

void LeadingCopier::copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) {
  leader_.tell_blocks(RankCall::copy_out, slots, 0);
  blocks_.gather(slots, blocks, stride);
}

void LeadingCopier::copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                            const ExtentList& slots) {
  leader_.tell_blocks(RankCall::copy_in, slots, first_token);
  blocks_.spread(blocks, stride, first_token, slots);
}

void LeadingCopier::copy_state_out(int cell, std::size_t from, std::span<std::byte> to) {
  leader_.tell_state(RankCall::state_out, cell, from, to.size());
  states_->gather(cell, from, to, to.size());
}

void LeadingCopier::copy_state_in(int cell, std::size_t from, std::span<const std::byte> bytes) {
  leader_.tell_state(RankCall::state_in, cell, from, bytes.size());
  states_->spread(cell, from, bytes, bytes.size());
}

void LeadingWindowCopier::copy_window_out(const ExtentList& window_slots, std::span<std::byte> blocks) {
  leader_.tell_blocks(RankCall::windows_out, window_slots, 0);
  blocks_.gather(window_slots, blocks, blocks_.block_bytes());
}

void LeadingWindowCopier::copy_window_in(std::span<const std::byte> blocks, int first_token,
                                         const ExtentList& window_slots) {
  leader_.tell_blocks(RankCall::windows_in, window_slots, first_token);
  blocks_.spread(blocks, blocks_.block_bytes(), first_token, window_slots);
}

}  // namespace espalier
