// What somebody who looks at the tree is shown of it (espalier/cache_outline.h). Cost: O(what is told).
#include <algorithm>

#include "cache/tree/radix_tree.h"

namespace espalier {

CacheOutline::Node TreeNodes::outlined(std::uint32_t n) const {
  const Node& node = nodes_[n];
  CacheOutline::Node out;
  out.index = n;
  out.generation = node.generation;
  out.begin = node.begin;
  out.end = node.end;
  out.hits = node.hits;
  out.last_use = node.last_use;
  out.pinned = node.is_protected();
  out.leaf = node.first_child == none;
  return out;
}

CacheOutline TreeNodes::outline(const CacheOutlineLimits& limits) const {
  CacheOutline out;
  struct Place {
    std::uint32_t node;
    int at, depth;  // in out.nodes; -1: a root, which is not told
  };
  std::vector<Place> queue;  // breadth first
  const auto most = static_cast<std::size_t>(std::max(limits.nodes, 0));
  // False: the children do not all fit.
  const auto add_children = [&](std::uint32_t parent, int at, int depth, int scope) {
    for (std::uint32_t n = nodes_[parent].first_child; n != none; n = nodes_[n].next) {
      if (out.nodes.size() >= most || depth > limits.depth) return false;
      CacheOutline::Node& told = out.nodes.emplace_back(outlined(n));
      told.parent = at;
      told.scope = scope;
      told.first_token = static_cast<std::int64_t>(out.tokens.size());
      told.tokens = static_cast<int>(std::clamp<std::int64_t>(limits.tokens - told.first_token, 0,
                                                              std::min(limits.tokens_of_node, nodes_[n].length())));
      out.tokens.insert(out.tokens.end(), tokens_of(nodes_[n]), tokens_of(nodes_[n]) + told.tokens);
      queue.push_back({n, static_cast<int>(out.nodes.size()) - 1, depth});
    }
    return true;
  };
  for (const auto& [name, root] : scopes_) {
    if (out.nodes.size() >= most) {
      out.more = true;
      break;
    }
    out.scopes.push_back(name);
    if (!add_children(root, -1, 1, static_cast<int>(out.scopes.size()) - 1)) out.more = true;
  }
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const Place place = queue[next];
    const auto at = static_cast<std::size_t>(place.at);
    if (add_children(place.node, place.at, place.depth + 1, out.nodes[at].scope)) continue;
    out.nodes[at].more = out.more = true;
  }
  out.clock = clock_;
  out.held_scopes = static_cast<std::int64_t>(scopes_.size());
  out.held_nodes = live_nodes_ - out.held_scopes;  // without their roots
  return out;
}

CacheOutline outline_of(const RadixTree& tree, const CacheOutlineLimits& limits) {
  CacheOutline out = tree.outline(limits);
  const TreeStatistics held = tree.statistics();
  out.held_tokens = held.evictable_tokens + held.protected_tokens;
  out.pinned_tokens = held.protected_tokens;
  out.asked_tokens = held.asked_tokens;
  out.hit_tokens = held.hit_tokens;
  out.inserted_tokens = held.inserted_tokens;
  out.evicted_tokens = held.evicted_tokens;
  return out;
}

}  // namespace espalier
