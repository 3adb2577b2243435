// tree_path.h: the tokens of a sequence that the tree holds, from its start, and where keys and values of its last ones lie.
// Units: tokens, positions, slots. Threads: the engine thread. Cost: O(tokens). Requires: a live handle, end up to its node's.
#pragma once

#include <vector>

#include "cache/slots/extent.h"
#include "cache/tree/radix_tree.h"

namespace espalier {

// A sequence up to somewhere in a node.
struct TreePath {
  std::vector<TokenId> tokens;
  ExtentList slots;  // from position `slots_from` on
  int slots_from = 0;
};

inline TreePath tree_path(const RadixTree& tree, NodeHandle node, int end, int slots_from) {
  TreePath path;
  path.slots_from = slots_from;
  path.tokens = tokens_up_to(tree, node, end);
  std::vector<RadixTree::NodeView> with_slots;
  for (auto view = tree.view(node); view.end > slots_from; view = tree.view(view.parent)) {
    if (view.begin < end) with_slots.push_back(view);
    if (view.begin == 0) break;
  }
  for (auto view = with_slots.rbegin(); view != with_slots.rend(); ++view) {
    const int from = std::max(view->begin, slots_from);
    path.slots.append(tree.extents(view->node), from - view->begin, std::min(view->end, end) - from);
  }
  return path;
}

}  // namespace espalier
