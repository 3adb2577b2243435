// evicted_leaf.h: which blocks of a leaf go to a tier when its end leaves the tree: those that share a piece with what goes, once.
// Pools that are full evict a token here and a token there; this makes all but one of 16 of those calls cost nothing.
// Units: positions, blocks of kBlockTokens tokens. Threads: the engine thread. Fails: never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cache/disk/prefix_file.h"
#include "cache/tree/radix_tree.h"

namespace espalier {

// The leaf that was evicted from last, whose end goes step by step.
class EvictedLeaf {
 public:
  // What stands from position `cut` on goes next. The first block to take, up to the leaf's last whole one; none: all of them
  // were taken before.
  std::optional<int> first_to_take(const RadixTree::NodeView& leaf, int cut, int piece_blocks) {
    const int lost = cut / kBlockTokens;
    const bool known = node_ == leaf.node.index && end_ == leaf.end;
    if (lost >= leaf.end / kBlockTokens || (known && lost >= taken_from_)) {
      if (known) end_ = cut;
      return std::nullopt;
    }
    node_ = leaf.node.index;
    end_ = cut;
    taken_from_ = std::max(lost / piece_blocks * piece_blocks, leaf.begin / kBlockTokens);
    return taken_from_;
  }

 private:
  std::uint32_t node_ = UINT32_MAX;
  int end_ = 0, taken_from_ = 0;
};

}  // namespace espalier
