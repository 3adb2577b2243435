#include "bench/fleet/routers/prompt_tree.h"

#include <algorithm>
#include <queue>

namespace espalier::bench {
namespace {

constexpr std::uint64_t kNoted = 8;  // of so many matches one counts as a use, as the router has it

std::size_t common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t most = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin());
}

}  // namespace

PromptTree::Seen* PromptTree::Node::of(int server) {
  const auto at = std::ranges::lower_bound(seen, server, {}, &Seen::server);
  return at != seen.end() && at->server == server ? &*at : nullptr;
}

int PromptTree::Node::owner() const {
  if (seen.empty()) return -1;
  const auto first = std::ranges::lower_bound(seen, first_server, {}, &Seen::server);
  return first != seen.end() && first->server == first_server ? first_server : seen.front().server;
}

PromptTree::Index PromptTree::child(Index node, TokenId first) const {
  const auto found = by_first_.find(key(node, first));
  return found == by_first_.end() ? 0 : found->second;
}

PromptTree::Index PromptTree::new_node(Index parent, std::span<const TokenId> run) {
  Index n = static_cast<Index>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
  } else {
    n = free_.back();
    free_.pop_back();
  }
  nodes_[n].run.assign(run.begin(), run.end());
  nodes_[n].parent = parent;
  nodes_[parent].children.push_back(n);
  by_first_[key(parent, run[0])] = n;
  return n;
}

// The node keeps what is behind `length`; returns the new one before it, with the servers of both.
PromptTree::Index PromptTree::split(Index n, std::size_t length) {
  const Index parent = nodes_[n].parent;
  std::erase(nodes_[parent].children, n);
  const std::vector<TokenId> run = std::move(nodes_[n].run);
  const Index before = new_node(parent, std::span(run).first(length));
  nodes_[before].seen = nodes_[n].seen;
  for (Seen& s : nodes_[before].seen) s.last = 0;
  nodes_[before].first_server = nodes_[n].first_server;
  nodes_[n].run.assign(run.begin() + static_cast<std::ptrdiff_t>(length), run.end());
  nodes_[n].parent = before;
  nodes_[before].children.push_back(n);
  by_first_[key(before, nodes_[n].run[0])] = n;
  return before;
}

void PromptTree::see(Index n, int server) {
  Node& node = nodes_[n];
  if (node.of(server)) return;
  node.seen.insert(std::ranges::lower_bound(node.seen, server, {}, &Seen::server), {server, 0});
  sizes_[static_cast<std::size_t>(server)] += static_cast<std::int64_t>(node.run.size());
}

PromptTree::Found PromptTree::find(std::span<const TokenId> prompt) {
  Found found;
  Index at = 0;
  auto left = prompt;
  while (!left.empty()) {
    const Index next = child(at, left[0]);
    if (next == 0) break;
    at = next;
    const std::size_t same = common(left, nodes_[at].run);
    found.length += static_cast<int>(same);
    if (same < nodes_[at].run.size()) break;
    left = left.subspan(same);
  }
  found.server = at == 0 ? -1 : nodes_[at].owner();
  if (++time_ % kNoted == 0 && found.server >= 0) nodes_[at].of(found.server)->last = time_;
  return found;
}

void PromptTree::add(std::span<const TokenId> prompt, int server) {
  Index at = 0;
  auto left = prompt;
  while (!left.empty()) {
    Index next = child(at, left[0]);
    if (next == 0) {
      at = new_node(at, left);
      nodes_[at].first_server = server;
      see(at, server);
      break;
    }
    const std::size_t same = common(left, nodes_[next].run);
    if (same < nodes_[next].run.size()) next = split(next, same);
    see(next, server);
    left = left.subspan(same);
    at = next;
  }
  if (at != 0) nodes_[at].of(server)->last = ++time_;
}

bool PromptTree::is_end(Index n, int server) {
  return std::ranges::none_of(nodes_[n].children, [&](Index c) { return nodes_[c].of(server) != nullptr; });
}

void PromptTree::leave(Index n, int server) {
  Node& node = nodes_[n];
  sizes_[static_cast<std::size_t>(server)] -= static_cast<std::int64_t>(node.run.size());
  std::erase_if(node.seen, [&](const Seen& s) { return s.server == server; });
  if (!node.seen.empty()) return;  // a server's run begins in the parent, so that nobody has a child of it either
  by_first_.erase(key(node.parent, node.run[0]));
  std::erase(nodes_[node.parent].children, n);
  node = {};
  free_.push_back(n);
}

void PromptTree::evict(std::int64_t most) {
  if (std::ranges::none_of(sizes_, [&](std::int64_t size) { return size > most; })) return;
  struct End {
    std::uint64_t last;
    int server;
    Index node;
    auto operator<=>(const End&) const = default;
  };
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  for (const auto& [_, n] : by_first_)
    for (const Seen& s : nodes_[n].seen)
      if (sizes_[static_cast<std::size_t>(s.server)] > most && is_end(n, s.server)) ends.push({s.last, s.server, n});
  while (!ends.empty()) {
    const End end = ends.top();
    ends.pop();
    if (sizes_[static_cast<std::size_t>(end.server)] <= most) continue;
    const Index parent = nodes_[end.node].parent;
    leave(end.node, end.server);
    if (parent != 0 && is_end(parent, end.server))
      if (const Seen* s = nodes_[parent].of(end.server)) ends.push({s->last, end.server, parent});
  }
}

}  // namespace espalier::bench
