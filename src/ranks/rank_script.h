// rank_script.h: for tests: operations drawn from a seed, the same in all ranks, and what must come of each.
//
// Threads: one for each rank. Units: bytes.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ranks/collective.h"

namespace espalier::testing {

// Runs operations of one rank and compares what comes with what must.
class RankScript {
 public:
  RankScript(ranks::Collective& group, std::uint64_t seed, std::size_t most_bytes)
      : group_(group), random_(seed), most_(most_bytes) {}

  // The first difference, in words; none: all was right.
  std::optional<std::string> run(int operations) {
    for (int i = 0; i < operations && !group_.ended(); ++i) {
      ++operation_;
      const auto wrong = one();
      if (wrong && !group_.ended()) return "operation " + std::to_string(operation_) + ": " + *wrong;
    }
    return group_.ended() ? std::optional<std::string>("the group has ended") : std::nullopt;
  }

 private:
  std::size_t draw(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }

  // Mostly small, also none, also the most; odd.
  std::size_t draw_bytes() {
    switch (draw(7)) {
      case 0:
        return 0;
      case 1:
        return most_;
      case 2:
        return draw(most_);
      default:
        return std::min(most_, draw(3000));
    }
  }

  std::byte byte_of(int rank, std::size_t at) const {
    std::uint64_t mixed = (operation_ * 1000003 + static_cast<std::uint64_t>(rank)) * 0x9e3779b97f4a7c15u + at / 8;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9u;
    return static_cast<std::byte>(mixed >> (8 * (at % 8)));
  }
  void fill(std::byte* to, std::size_t bytes) const {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = byte_of(group_.rank(), i);
  }
  std::optional<std::string> check(const std::byte* from, std::size_t bytes, int rank) const {
    for (std::size_t i = 0; i < bytes; ++i)
      if (from[i] != byte_of(rank, i))
        return "byte " + std::to_string(i) + " of " + std::to_string(bytes) + " of rank " + std::to_string(rank);
    return std::nullopt;
  }

  std::optional<std::string> one() {
    const std::size_t kind = draw(9);
    if (kind == 0) return group_.barrier(), std::nullopt;
    if (kind <= 2) return broadcast(kind == 1);
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < group_.size(); ++rank) bytes.push_back(draw_bytes());
    const std::size_t own = bytes[static_cast<std::size_t>(group_.rank())];
    std::byte* const mine = group_.outgoing(own);
    if (reinterpret_cast<std::uintptr_t>(mine) % 64 != 0) return "not aligned";
    fill(mine, own);
    group_.exchange(bytes);
    for (int rank = 0; rank < group_.size() && !group_.ended(); ++rank)
      if (auto wrong = check(group_.incoming(rank), bytes[static_cast<std::size_t>(rank)], rank)) return wrong;
    return std::nullopt;
  }

  std::optional<std::string> broadcast(bool of_known_length) {
    const int root = static_cast<int>(draw(static_cast<std::size_t>(group_.size() - 1)));
    const std::size_t bytes = draw(3) == 0 ? draw(3 * most_) : draw_bytes();
    std::vector<std::byte> message(group_.rank() == root || of_known_length ? bytes : 7);
    if (group_.rank() == root) fill(message.data(), bytes);
    if (of_known_length)
      group_.broadcast(root, std::span(message));
    else
      group_.broadcast(root, message);
    if (group_.ended()) return std::nullopt;
    if (message.size() != bytes) return "a message of another length";
    return check(message.data(), bytes, root);
  }

  ranks::Collective& group_;
  std::mt19937_64 random_;
  const std::size_t most_;
  std::uint64_t operation_ = 0;
};

}  // namespace espalier::testing
