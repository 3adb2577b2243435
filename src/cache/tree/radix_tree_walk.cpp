// The reading half of the radix tree: nothing here changes it.
#include <algorithm>

#include "cache/tree/radix_tree.h"
#include "cache/tree/tree_windows.h"

namespace espalier {
namespace {

// The largest position <= `position` at which no span is cut.
int before_span(std::span<const TokenSpan> whole, int position) {
  auto behind = std::partition_point(whole.begin(), whole.end(), [&](TokenSpan s) { return s.begin < position; });
  if (behind == whole.begin()) return position;
  TokenSpan last = *std::prev(behind);
  return position < last.end ? std::max(last.begin, 0) : position;
}

}  // namespace

int shorten(int length, const CacheKey& key, MatchLimit limit) {
  for (int before = -1; before != length;) {
    before = length;
    length -= length % std::max(limit.multiple, 1);
    length = before_span(key.whole, length);
  }
  return length;
}

std::string_view name(MatchEnd end) {
  switch (end) {
    case MatchEnd::whole_key:
      return "whole_key";
    case MatchEnd::limit:
      return "limit";
    case MatchEnd::cold:
      return "cold";
    case MatchEnd::diverged:
      return "diverged";
    case MatchEnd::tree_end:
      return "tree_end";
    case MatchEnd::evicted:
      return "evicted";
    case MatchEnd::no_state:
      return "no_state";
    case MatchEnd::no_window:
      return "no_window";
  }
  return "unknown";
}

MatchEnd RadixTree::why(const CacheKey& key, Walk full, int shortened) const {
  if (shortened < full.length) return MatchEnd::limit;
  if (full.length == static_cast<int>(key.tokens.size())) return MatchEnd::whole_key;
  TokenId next = key.tokens[full.length];
  if (full.node == none) return ghosts_.contains(ghost(none, key.scope, next)) ? MatchEnd::evicted : MatchEnd::cold;
  if (walk(full, key.tokens, 0, full.length + 1).length > full.length) return MatchEnd::limit;
  const Node& node = nodes_[full.node];
  if (full.length < node.end) return MatchEnd::diverged;
  if (ghosts_.contains(ghost(full.node, key.scope, next))) return MatchEnd::evicted;
  if (node.is_root()) return MatchEnd::cold;
  return node.first_child == none ? MatchEnd::tree_end : MatchEnd::diverged;
}

Peek RadixTree::peek(const CacheKey& key, MatchLimit limit, PeekMemory* memory) const {
  int most = std::clamp(limit.length, 0, static_cast<int>(key.tokens.size()));
  Walk at{scope_root(key.scope), 0};
  if (memory != nullptr && alive(memory->last.node)) {
    // What was matched then still matches, as far as its node reaches now.
    int known = std::min(memory->last.length, nodes_[memory->last.node.index].end);
    at = climb({memory->last.node.index, known}, known);
  }
  if (memory != nullptr && memory->version == version_) {
    if (memory->last.length > 0) memory->last.node = handle(at.node);  // a split may have moved it
    return memory->last;
  }
  if (at.node != none) at = walk(at, key.tokens, 0, most);
  Peek result;
  result.length = result.held = shorten(at.length, key, limit);
  result.end = why(key, at, result.length);
  if (StateAt state; result.held > 0)
    result.length = TreeWindows(*this).usable(climb(at, result.held), key, limit, state, result.end).length;
  if (result.length > 0) result.node = handle(climb(at, result.length).node);
  if (memory != nullptr) *memory = {result, version_};
  return result;
}

ExtentList RadixTree::extents(const PinnedPrefix& prefix) const {
  return prefix.tree_ == this ? slots_between(prefix.node_, 0, prefix.length_) : ExtentList();
}

std::vector<TokenId> RadixTree::tokens(const PinnedPrefix& prefix) const {
  std::vector<TokenId> result;
  for (const PathStep& step : path(prefix)) {
    const Node& node = nodes_[step.node.index];
    result.insert(result.end(), tokens_of(node), tokens_of(node) + node.length());
  }
  return result;
}

int RadixTree::tokens_only_of(const PinnedPrefix& prefix) const {
  int tokens = 0;
  std::uint32_t n = prefix.node_;
  for (bool alone = nodes_[n].pins + nodes_[n].protected_children == 1; alone && !nodes_[n].is_root();) {
    tokens += nodes_[n].length();
    n = nodes_[n].parent;
    alone = nodes_[n].pins + nodes_[n].protected_children == 1;
  }
  return tokens;
}

std::vector<PathStep> RadixTree::path(const PinnedPrefix& prefix) const {
  std::vector<PathStep> steps;
  if (prefix.tree_ != this) return steps;
  for (std::uint32_t n = prefix.node_; !nodes_[n].is_root(); n = nodes_[n].parent) {
    steps.push_back({handle(n), nodes_[n].begin, nodes_[n].end});
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

ExtentList RadixTree::extents(NodeHandle handle) const {
  if (!alive(handle)) return {};
  return slots_between(handle.index, nodes_[handle.index].begin, nodes_[handle.index].end);
}

// --- snapshots ---

// The last one at which the key and the limit allow a match to end.
RadixTree::StateAt RadixTree::last_fitting_state(Walk at, const CacheKey& key, MatchLimit limit) const {
  for (;;) {
    const StateAt state = snapshots_.last(at);
    const int fitting = shorten(state.position, key, limit);
    if (fitting == state.position) return state;
    at = climb(at, fitting);
  }
}

TreeStatistics RadixTree::statistics() const {
  TreeStatistics now = counters_;
  now.nodes = live_nodes_;
  now.evictable_leaves = static_cast<std::int64_t>(leaves_.items().size());
  now.scopes = static_cast<std::int64_t>(scopes_.size());
  now.evictable_tokens = evictable_;
  now.protected_tokens = protected_;
  now.states = snapshots_.count();
  now.left_states = snapshots_.left();
  now.evicted_states = snapshots_.evicted();
  return now;
}

std::vector<TokenId> tokens_up_to(const RadixTree& tree, NodeHandle node, int end) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(end));
  for (auto view = tree.view(node);; view = tree.view(view.parent)) {
    const int count = std::min(view.end, end) - view.begin;
    if (count > 0) std::copy_n(view.tokens.begin(), count, tokens.begin() + view.begin);
    if (view.begin == 0) return tokens;
  }
}

}  // namespace espalier
