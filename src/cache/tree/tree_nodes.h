// tree_nodes.h: the nodes of a radix tree: their links, tokens and slots. What is kept and what goes is the tree's
// business (radix_tree.h).
//
// Units: positions in tokens. Threads: the engine thread. Fails: never. Cost: walk: O(tokens), at memory speed; the rest
// O(1) or O(nodes passed). Nothing recurses.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/slots/extent.h"
#include "cache/tree/eviction.h"
#include "espalier/cache_outline.h"
#include "espalier/types.h"

namespace espalier {

// Tokens of a key that are kept or dropped together, such as those of one picture.
struct TokenSpan {
  int begin = 0, end = 0;  // positions in the key, end exclusive
  bool operator==(const TokenSpan&) const = default;
};

// Names a node until it is evicted, wholly or in part; a stale handle is recognised, also after its place was used
// again.
struct NodeHandle {
  std::uint32_t index = UINT32_MAX;
  std::uint32_t generation = 0;
  bool operator==(const NodeHandle&) const = default;
};

// A tree per scope; an edge is a run of tokens with the slots of their keys and values.
class TreeNodes {
 public:
  struct NodeView {
    NodeHandle node, parent;  // parent of a scope's first nodes: the scope's root, which is not shown
    std::string_view scope;
    int begin = 0, end = 0;
    std::span<const TokenId> tokens;  // [end - begin]
    NodeUse use;
    bool pinned = false;
    bool leaf = false;
  };
  bool alive(NodeHandle handle) const;

 protected:
  friend class TreeSnapshots;
  friend class RadixTreeCheck;
  static constexpr std::uint32_t none = UINT32_MAX;

  struct StateAt {
    int position = 0;  // tokens before it
    int cell = -1;     // -1: none, the state of an empty text
  };

  // Tokens and slots that came in together; the nodes cut out of it follow each other from parent to child, and the
  // last one ends where the run ends.
  struct Run {
    std::vector<TokenId> tokens;
    ExtentList slots;
    std::vector<TokenSpan> whole;  // positions in the sequence
    std::vector<StateAt> states;   // ascending, each behind the run's first token
    int begin = 0;                 // position of tokens[0]
    int nodes = 0;                 // 0: this place is free
    std::uint32_t last = none;     // the node it ends with
  };

  struct Node {
    std::uint32_t run = none;                                                       // none: a scope's root
    std::uint32_t root = none;                                                      // of its scope
    std::uint32_t parent = none, first_child = none, next = none, previous = none;  // next, previous: siblings
    std::uint32_t generation = 0;
    int begin = 0, end = 0;  // positions of its tokens in the sequence
    int pins = 0;            // PinnedPrefix objects that end here
    int protected_children = 0;
    std::uint32_t hits = 0;
    bool live = false;
    std::uint64_t last_use = 0;

    int length() const { return end - begin; }
    bool is_protected() const { return pins + protected_children > 0; }
    bool is_root() const { return run == none; }
  };

  struct Walk {
    std::uint32_t node = none;  // the last matched token lies in it, or it is the root
    int length = 0;             // position behind the last matched token
  };

  // Reading
  Walk walk(Walk from, std::span<const TokenId> tokens, int base, int limit) const;
  Walk climb(Walk walk, int length) const;
  ExtentList slots_between(std::uint32_t n, int begin, int end) const;
  std::uint32_t child(std::uint32_t node, TokenId first) const;
  std::uint32_t scope_root(std::string_view scope) const;
  std::uint32_t first_node() const;
  std::uint32_t node_after(std::uint32_t n) const;
  NodeView view(std::uint32_t n) const;
  CacheOutline outline(const CacheOutlineLimits& limits) const;  // the nodes alone
  CacheOutline::Node outlined(std::uint32_t n) const;
  NodeHandle handle(std::uint32_t n) const { return {n, nodes_[n].generation}; }
  const TokenId* tokens_of(const Node& n) const { return runs_[n.run].tokens.data() + (n.begin - runs_[n.run].begin); }
  std::uint64_t edge(std::uint32_t parent, TokenId first) const {
    return std::uint64_t{parent} << 32 | static_cast<std::uint32_t>(first);
  }
  std::uint64_t ghost(std::uint32_t parent, std::string_view scope, TokenId first) const;

  // Changing
  std::uint32_t root_of(std::string_view scope);
  void drop_if_empty_root(std::uint32_t n);
  std::uint32_t new_node();
  void free_node(std::uint32_t n);
  std::uint32_t new_run();
  void release_run(std::uint32_t r);
  void link(std::uint32_t parent, std::uint32_t n);
  void unlink(std::uint32_t n);
  std::uint32_t split(std::uint32_t n, int position);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_nodes_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> children_;  // edge(parent, first token) -> child
  using Scopes = std::map<std::string, std::uint32_t, std::less<>>;   // ordered: no hash for a tenant to attack
  Scopes scopes_;
  std::map<std::uint32_t, Scopes::iterator> scope_of_root_;
  std::uint64_t clock_ = 0;
  std::uint64_t version_ = 0;  // rises with every insertion and eviction
  std::int64_t live_nodes_ = 0;
};

}  // namespace espalier
