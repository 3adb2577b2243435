// check(): the invariants of the radix tree, each proved by counting again.
#include <fmt/format.h>

#include <algorithm>

#include "cache/tree/radix_tree.h"

namespace espalier {

// Reads all of a tree, and counts again.
class RadixTreeCheck {
 public:
  explicit RadixTreeCheck(const RadixTree& tree) : tree_(tree), nodes_(tree.nodes_), runs_(tree.runs_) {}
  Result<> structure() const;
  Result<> runs() const;
  Result<> counts() const;
  Result<> slots() const;

 private:
  using Node = TreeNodes::Node;
  using Run = TreeNodes::Run;
  static constexpr std::uint32_t none = TreeNodes::none;

  const RadixTree& tree_;
  const std::vector<Node>& nodes_;
  const std::vector<Run>& runs_;
};

Result<> RadixTree::check() const {
  const RadixTreeCheck all(*this);
  ESP_CHECK(all.structure());
  ESP_CHECK(all.runs());
  ESP_CHECK(all.counts());
  ESP_CHECK(allocator_.check());
  ESP_CHECK(all.slots());
  if (windows_ != nullptr) ESP_CHECK(windows_->check(allocator_));
  return snapshots_.check();
}

// Links in both directions, positions that continue those of the parent, children found by their first token alone.
Result<> RadixTreeCheck::structure() const {
  std::size_t children = 0;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (!node.live) continue;
    if (node.is_root()) {
      auto scope = tree_.scope_of_root_.find(n);
      if (scope == tree_.scope_of_root_.end() || scope->second->second != n || node.end != 0 || node.parent != none) {
        return internal_error(fmt::format("node {} is no proper root", n));
      }
      if (node.first_child == none && !node.is_protected()) return internal_error("an empty scope was not forgotten");
    } else {
      const Node& parent = nodes_[node.parent];
      if (!parent.live || parent.end != node.begin || parent.root != node.root || node.length() <= 0) {
        return internal_error(fmt::format("node {} does not continue its parent {}", n, node.parent));
      }
      if (tree_.child(node.parent, *tree_.tokens_of(node)) != n) {
        return internal_error(fmt::format("node {} is not found by its first token", n));
      }
      ++children;
    }
    int protected_children = 0;
    std::uint32_t previous = none;
    for (std::uint32_t c = node.first_child; c != none; previous = c, c = nodes_[c].next) {
      if (!nodes_[c].live || nodes_[c].parent != n || nodes_[c].previous != previous) {
        return internal_error(fmt::format("child {} of node {} is linked wrongly", c, n));
      }
      if (nodes_[c].is_protected()) ++protected_children;
    }
    if (node.pins < 0 || node.protected_children != protected_children) {
      return internal_error(
          fmt::format("node {} counts {} protected children of {}", n, node.protected_children, protected_children));
    }
  }
  if (children != tree_.children_.size()) return internal_error("the edge table knows edges that do not exist");
  if (tree_.scopes_.size() != tree_.scope_of_root_.size()) return internal_error("scopes and roots differ in number");
  return success();
}

// The nodes of a run follow each other and cover it to its end.
Result<> RadixTreeCheck::runs() const {
  std::vector<int> nodes(runs_.size(), 0);
  std::vector<int> covered(runs_.size(), 0);
  for (const Node& node : nodes_) {
    if (!node.live || node.is_root()) continue;
    const Run& run = runs_[node.run];
    ++nodes[node.run];
    covered[node.run] += node.length();
    int run_end = run.begin + static_cast<int>(run.tokens.size());
    if (node.begin < run.begin || node.end > run_end) return internal_error("a node reaches beyond its run");
    if (node.begin > run.begin && nodes_[node.parent].run != node.run) {
      return internal_error("a node inside a run does not hang on the node before it");
    }
  }
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const Run& run = runs_[r];
    auto size = static_cast<int>(run.tokens.size());
    if (run.nodes != nodes[r] || covered[r] != size || run.slots.length() != size) {
      return internal_error(fmt::format("run {} of {} tokens has {} slots, {} nodes (counted {}) covering {}", r, size,
                                        run.slots.length(), nodes[r], run.nodes, covered[r]));
    }
    if (!run.whole.empty() && run.whole.back().end > run.begin + size) return internal_error("a span outlived its run");
  }
  return success();
}

// Evictable and protected tokens, and a heap of exactly the unprotected leaves.
Result<> RadixTreeCheck::counts() const {
  std::int64_t live = 0;
  std::int64_t evictable = 0;
  std::int64_t protect = 0;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    bool evictable_leaf = node.live && !node.is_root() && node.first_child == none && !node.is_protected();
    if (tree_.leaves_.contains(n) != evictable_leaf) {
      return internal_error(
          fmt::format("node {} is {}in the heap of evictable leaves", n, evictable_leaf ? "not " : ""));
    }
    if (!node.live) continue;
    ++live;
    (node.is_protected() ? protect : evictable) += node.length();
  }
  if (!tree_.leaves_.consistent()) return internal_error("the heap of evictable leaves is out of order");
  if (live != tree_.live_nodes_ || evictable != tree_.evictable_ || protect != tree_.protected_) {
    return internal_error(fmt::format("{} nodes, {} evictable and {} protected tokens, counted as {}, {} and {}", live,
                                      evictable, protect, tree_.live_nodes_, tree_.evictable_, tree_.protected_));
  }
  return success();
}

// No slot twice, none of them free, and free + tree + private = capacity.
Result<> RadixTreeCheck::slots() const {
  std::vector<bool> seen(static_cast<std::size_t>(tree_.allocator_.capacity()), false);
  for (const Run& run : runs_) {
    for (Extent extent : run.slots.extents()) {
      if (extent.start < 0 || extent.length > tree_.allocator_.capacity() - extent.start) {
        return internal_error(fmt::format("slots [{}, +{}) are not of the pool", extent.start, extent.length));
      }
      for (Slot slot = extent.start; slot < extent.end(); ++slot) {
        if (seen[slot]) return internal_error(fmt::format("slot {} is in the tree twice", slot));
        if (tree_.allocator_.is_free(slot)) return internal_error(fmt::format("slot {} is in the tree and free", slot));
        seen[slot] = true;
      }
    }
  }
  int accounted = tree_.allocator_.free_slots() + tree_.held_tokens() + tree_.allocator_.held_slots();
  if (accounted != tree_.allocator_.capacity()) {
    return internal_error(fmt::format("{} free + {} in the tree + {} private slots are not the capacity {}",
                                      tree_.allocator_.free_slots(), tree_.held_tokens(), tree_.allocator_.held_slots(),
                                      tree_.allocator_.capacity()));
  }
  return success();
}

}  // namespace espalier
