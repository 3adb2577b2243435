#include "cache/tree/tree_nodes.h"

#include <algorithm>

#include "cache/tree/recent_set.h"
#include "cache/tree/token_compare.h"

namespace espalier {

std::uint32_t TreeNodes::child(std::uint32_t node, TokenId first) const {
  auto found = children_.find(edge(node, first));
  return found == children_.end() ? none : found->second;
}

std::uint32_t TreeNodes::scope_root(std::string_view scope) const {
  auto found = scopes_.find(scope);
  return found == scopes_.end() ? none : found->second;
}

// Follows `tokens` (tokens[0] stands at position `base`) from `from`, up to position `limit`.
TreeNodes::Walk TreeNodes::walk(Walk from, std::span<const TokenId> tokens, int base, int limit) const {
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
TreeNodes::Walk TreeNodes::climb(Walk at, int length) const {
  at.length = std::min(at.length, length);
  while (!nodes_[at.node].is_root() && at.length <= nodes_[at.node].begin) at.node = nodes_[at.node].parent;
  return at;
}

std::uint64_t TreeNodes::ghost(std::uint32_t parent, std::string_view scope, TokenId first) const {
  // A root is forgotten when its scope is empty, so it is known by its name.
  bool at_root = parent == none || nodes_[parent].is_root();
  std::uint64_t place =
      at_root ? std::hash<std::string_view>{}(scope) : std::uint64_t{parent} << 32 | nodes_[parent].generation;
  return mix_bits(place + 0x9e3779b97f4a7c15u) ^ mix_bits(static_cast<std::uint32_t>(first));
}

// Slots of positions [begin, end), which lie in `n` and the nodes above it.
ExtentList TreeNodes::slots_between(std::uint32_t n, int begin, int end) const {
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

bool TreeNodes::alive(NodeHandle handle) const {
  return handle.index < nodes_.size() && nodes_[handle.index].live &&
         nodes_[handle.index].generation == handle.generation;
}

TreeNodes::NodeView TreeNodes::view(std::uint32_t n) const {
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
  result.leaf = node.first_child == none;
  return result;
}

std::uint32_t TreeNodes::first_node() const {
  for (const auto& [scope, root] : scopes_) {
    if (nodes_[root].first_child != none) return nodes_[root].first_child;
  }
  return none;
}

std::uint32_t TreeNodes::node_after(std::uint32_t n) const {
  if (nodes_[n].first_child != none) return nodes_[n].first_child;
  while (!nodes_[n].is_root() && nodes_[n].next == none) n = nodes_[n].parent;
  if (!nodes_[n].is_root()) return nodes_[n].next;
  for (auto scope = std::next(scope_of_root_.at(n)); scope != scopes_.end(); ++scope) {
    if (nodes_[scope->second].first_child != none) return nodes_[scope->second].first_child;
  }
  return none;
}

// Cuts a node in two at `position` (strictly inside); returns the upper part. The lower part keeps the index, so pins
// and handles to its end stay right.
std::uint32_t TreeNodes::split(std::uint32_t n, int position) {
  std::uint32_t u = new_node();
  Node& upper = nodes_[u];
  Node& lower = nodes_[n];
  upper.run = lower.run;
  ++runs_[lower.run].nodes;
  upper.begin = lower.begin;
  upper.end = position;
  upper.last_use = lower.last_use;
  upper.hits = lower.hits;
  upper.protected_children = lower.is_protected() ? 1 : 0;
  std::uint32_t parent = lower.parent;
  unlink(n);
  lower.begin = position;
  link(parent, u);
  link(u, n);
  return u;
}

void TreeNodes::link(std::uint32_t parent, std::uint32_t n) {
  Node& node = nodes_[n];
  node.parent = parent;
  node.root = nodes_[parent].root;
  node.previous = none;
  node.next = nodes_[parent].first_child;
  if (node.next != none) nodes_[node.next].previous = n;
  nodes_[parent].first_child = n;
  children_.emplace(edge(parent, *tokens_of(node)), n);
}

void TreeNodes::unlink(std::uint32_t n) {
  const Node& node = nodes_[n];
  children_.erase(edge(node.parent, *tokens_of(node)));
  if (node.next != none) nodes_[node.next].previous = node.previous;
  if (node.previous != none)
    nodes_[node.previous].next = node.next;
  else
    nodes_[node.parent].first_child = node.next;
}

std::uint32_t TreeNodes::root_of(std::string_view scope) {
  if (std::uint32_t root = scope_root(scope); root != none) return root;
  std::uint32_t root = new_node();
  nodes_[root].root = root;
  scope_of_root_.emplace(root, scopes_.emplace(std::string(scope), root).first);
  return root;
}

void TreeNodes::drop_if_empty_root(std::uint32_t n) {
  if (nodes_[n].first_child != none || nodes_[n].is_protected()) return;
  auto scope = scope_of_root_.find(n);
  scopes_.erase(scope->second);
  scope_of_root_.erase(scope);
  free_node(n);
}

std::uint32_t TreeNodes::new_node() {
  ++live_nodes_;
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
    nodes_.back().live = true;
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  std::uint32_t n = free_nodes_.back();
  free_nodes_.pop_back();
  std::uint32_t generation = nodes_[n].generation;
  nodes_[n] = Node();
  nodes_[n].generation = generation;
  nodes_[n].live = true;
  return n;
}

void TreeNodes::free_node(std::uint32_t n) {
  --live_nodes_;
  nodes_[n].live = false;
  ++nodes_[n].generation;
  free_nodes_.push_back(n);
}

std::uint32_t TreeNodes::new_run() {
  if (free_runs_.empty()) {
    runs_.emplace_back();
    return static_cast<std::uint32_t>(runs_.size() - 1);
  }
  std::uint32_t r = free_runs_.back();
  free_runs_.pop_back();
  return r;
}

void TreeNodes::release_run(std::uint32_t r) {
  runs_[r] = Run();
  free_runs_.push_back(r);
}

}  // namespace espalier
