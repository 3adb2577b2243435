// cache_outline.h: the prefix tree as somebody looks at it: which prefixes it holds, how large, how much used.
//
// A copy of bounded size. What a limit leaves out is said where it is left out, so a picture of it never pretends to be
// whole.
// Units:   tokens. Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/types.h"

namespace espalier {

// How much of the tree is copied.
struct CacheOutlineLimits {
  int nodes = 500;                // the upper ones first, of siblings the newest
  int depth = 1000;               // nodes from the start of a sequence
  int tokens_of_node = 64;        // the first ones of each node
  std::int64_t tokens = 1 << 18;  // of all nodes together
};

// The tree's nodes, parents before their children.
struct CacheOutline {
  // A run of tokens that is kept together.
  struct Node {
    std::uint32_t index = 0, generation = 0;  // its name: no other node has it before this one has gone
    int parent = -1;                          // place in `nodes`; -1: it begins a sequence
    int scope = 0;                            // place in `scopes`
    int begin = 0, end = 0;                   // positions of its tokens in their sequence
    std::uint32_t hits = 0;                   // matches that went through it
    std::uint64_t last_use = 0;               // on the tree's own clock
    bool pinned = false;                      // it cannot be evicted: it, or something behind it, is in use
    bool leaf = false;
    bool more = false;             // it has children that are not told
    std::int64_t first_token = 0;  // place in `tokens`
    int tokens = 0;                // that are told
  };
  std::vector<Node> nodes;
  std::vector<TokenId> tokens;
  std::vector<std::string> scopes;  // the name spaces that the nodes are in
  bool more = false;                // there are nodes that are not told
  std::uint64_t clock = 0;          // what last_use counts up to
  // Of the whole tree.
  std::int64_t held_nodes = 0, held_tokens = 0, pinned_tokens = 0, held_scopes = 0;
  std::int64_t asked_tokens = 0, hit_tokens = 0, inserted_tokens = 0, evicted_tokens = 0;  // since the start
};

}  // namespace espalier
