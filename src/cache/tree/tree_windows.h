// tree_windows.h: what is read through a window in the radix tree: how far back a match has to go where some of it is
// gone, and which goes first.
//
// Whether a token has its window slot is told by its slot (window_slots.h), so nodes and runs keep nothing of it. Of a
// model without windows everything is there and nothing goes.
// Units: positions, window slots. Threads: the engine thread. Fails: never. Order: the tree outlives it.
// Cost: readable: O(window), or O(what is held) where some is gone; evict: O(tree); in_use: O(nodes and slots in use).
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/tree/radix_tree.h"

namespace espalier {

// What somebody reads through the window: the positions of a prefix from this one on.
struct WindowUse {
  const PinnedPrefix* prefix = nullptr;
  int from = 0;
};

// A view of a tree: the window slots of what it holds. Made where it is needed.
class TreeWindows {
 public:
  explicit TreeWindows(const RadixTree& tree) : tree_(tree) {}

  // Frees at least so many window slots, as far as there are any that nobody reads; how many. First go those that lie
  // before every window from which a sequence is likely to go on: from the ends of nodes, and every so many tokens of a
  // long run. Within both the least recently used first, of those the ones in front.
  static int evict(RadixTree& tree, int wanted, std::span<const WindowUse> in_use);
  int in_use(std::span<const WindowUse> in_use) const;  // window slots, each counted once
  int last_readable(const PinnedPrefix& prefix) const;  // how much of it a match may end in

 private:
  friend class RadixTree;
  using Walk = RadixTree::Walk;
  using NeededFrom = boost::unordered_flat_map<std::uint32_t, int>;
  struct Piece {   // positions of a node that go together, the lowest first
    int rank = 0;  // 1: a sequence may go on from where it is read
    std::uint64_t last_use = 0;
    int begin = 0, end = 0;
    std::uint32_t node = RadixTree::none;
    auto operator<=>(const Piece&) const = default;
  };

  Walk readable(Walk at, const CacheKey& key, MatchLimit limit) const;
  // The longest prefix of a walk that a sequence can go on from; the state behind it, and why it is no longer.
  Walk usable(Walk at, const CacheKey& key, MatchLimit limit, RadixTree::StateAt& state, MatchEnd& end) const;
  int last_lacking(const RadixTree::Node& node, int begin, int end) const;
  NeededFrom needed_from(std::span<const WindowUse> in_use) const;
  void add_pieces(std::uint32_t n, int needed_from, std::vector<Piece>& to) const;
  bool is_gone_on_from(const RadixTree::Node& node, int begin, int end) const;
  void touch(std::uint32_t n, int begin, int end) const;

  const RadixTree& tree_;
};

}  // namespace espalier
