// branch_order.h: the walk of the dfs-weight policy: which waiting requests continue neighbouring places of the tree.
//
// The tree is walked depth first, at each node the child with most waiting requests behind it first, so that a branch
// is used up before its tokens can be evicted; those who end at a node come behind all of its branches.
// Cost: O(requests + distinct nodes x depth). Source: SGLang's dfs-weight.
#pragma once

#include <span>
#include <vector>

#include "cache/tree/radix_tree.h"

namespace espalier {

// For each handle (the node its longest prefix ends in; stale: nothing is cached) its place in the walk, from 0; those
// without a node come last.
std::vector<int> branch_order(const RadixTree& tree, std::span<const NodeHandle> ends);

}  // namespace espalier
