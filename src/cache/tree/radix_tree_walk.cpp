// The reading half of the radix tree: nothing here changes it.
#include <algorithm>

#include "cache/tree/radix_tree.h"
#include "cache/tree/token_compare.h"
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

std::uint32_t RadixTree::child(std::uint32_t node, TokenId first) const {
  auto found = children_.find(edge(node, first));
  return found == children_.end() ? none : found->second;
}

std::uint32_t RadixTree::scope_root(std::string_view scope) const {
  auto found = scopes_.find(scope);
  return found == scopes_.end() ? none : found->second;
}

// Follows `tokens` (tokens[0] stands at position `base`) from `from`, up to position `limit`.
RadixTree::Walk RadixTree::walk(Walk from, std::span<const TokenId> tokens, int base, int limit) const {
  Walk at = from;
  while (at.length < limit) {
    if (at.length == nodes_[at.node].end) {
      std::uint32_t next = child(at.node, tokens[at.length - base]);
      if (next == none) break;
      at.node = next;
    }
    const Node& node = nodes_[at.node];
    int count = std::min(node.end, limit) - at.length;
    int same = common_prefix(tokens_of(node) + (at.length - node.begin), tokens.data() + (at.length - base), count);
    at.length += same;
    if (same < count) break;
  }
  return at;
}

// The same walk, ended earlier.
RadixTree::Walk RadixTree::climb(Walk at, int length) const {
  at.length = std::min(at.length, length);
  while (!nodes_[at.node].is_root() && at.length <= nodes_[at.node].begin) at.node = nodes_[at.node].parent;
  return at;
}

int RadixTree::shorten(int length, const CacheKey& key, MatchLimit limit) const {
  for (int before = -1; before != length;) {
    before = length;
    length -= length % std::max(limit.multiple, 1);
    length = before_span(key.whole, length);
  }
  return length;
}

std::uint64_t RadixTree::ghost(std::uint32_t parent, std::string_view scope, TokenId first) const {
  // A root is forgotten when its scope is empty, so it is known by its name.
  bool at_root = parent == none || nodes_[parent].is_root();
  std::uint64_t place =
      at_root ? std::hash<std::string_view>{}(scope) : std::uint64_t{parent} << 32 | nodes_[parent].generation;
  return mix_bits(place + 0x9e3779b97f4a7c15u) ^ mix_bits(static_cast<std::uint32_t>(first));
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

// Slots of positions [begin, end), which lie in `n` and the nodes above it.
ExtentList RadixTree::slots_between(std::uint32_t n, int begin, int end) const {
  boost::container::small_vector<std::uint32_t, 32> path;
  for (; n != none && nodes_[n].end > begin; n = nodes_[n].parent) path.push_back(n);
  ExtentList slots;
  for (std::size_t i = path.size(); i-- > 0;) {
    const Node& node = nodes_[path[i]];
    const Run& run = runs_[node.run];
    int from = std::max(begin, node.begin);
    slots.append(run.slots, from - run.begin, std::min(end, node.end) - from);
  }
  return slots;
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

bool RadixTree::alive(NodeHandle handle) const {
  return handle.index < nodes_.size() && nodes_[handle.index].live &&
         nodes_[handle.index].generation == handle.generation;
}

RadixTree::NodeView RadixTree::view(std::uint32_t n) const {
  const Node& node = nodes_[n];
  NodeView result;
  result.node = handle(n);
  if (node.parent != none) result.parent = handle(node.parent);
  result.scope = scope_of_root_.at(node.root)->first;
  result.begin = node.begin;
  result.end = node.end;
  if (!node.is_root()) result.tokens = {tokens_of(node), static_cast<std::size_t>(node.length())};
  result.use = {node.last_use, node.hits, node.begin, node.end};
  result.pinned = node.is_protected();
  return result;
}

ExtentList RadixTree::extents(NodeHandle handle) const {
  if (!alive(handle)) return {};
  return slots_between(handle.index, nodes_[handle.index].begin, nodes_[handle.index].end);
}

std::uint32_t RadixTree::first_node() const {
  for (const auto& [scope, root] : scopes_) {
    if (nodes_[root].first_child != none) return nodes_[root].first_child;
  }
  return none;
}

std::uint32_t RadixTree::node_after(std::uint32_t n) const {
  if (nodes_[n].first_child != none) return nodes_[n].first_child;
  while (!nodes_[n].is_root() && nodes_[n].next == none) n = nodes_[n].parent;
  if (!nodes_[n].is_root()) return nodes_[n].next;
  for (auto scope = std::next(scope_of_root_.at(n)); scope != scopes_.end(); ++scope) {
    if (nodes_[scope->second].first_child != none) return nodes_[scope->second].first_child;
  }
  return none;
}

TreeStatistics RadixTree::statistics() const {
  TreeStatistics now = counters_;
  now.nodes = live_nodes_;
  now.evictable_leaves = static_cast<std::int64_t>(leaves_.items().size());
  now.scopes = static_cast<std::int64_t>(scopes_.size());
  now.evictable_tokens = evictable_;
  now.protected_tokens = protected_;
  now.states = static_cast<std::int64_t>(std::count_if(snapshots_.begin(), snapshots_.end(),
                                                       [](const Snapshot& s) { return static_cast<bool>(s.share); }));
  return now;
}

}  // namespace espalier
