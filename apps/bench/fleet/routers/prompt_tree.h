// prompt_tree.h: which server was sent which prompt: a tree of runs of tokens, each with the servers that saw it.
//
// It is a router's guess of what caches hold: it learns from what it sends and hears nothing of what they evict.
// A match ends at any token; it belongs to the server that was sent this run first, or to the lowest number of those
// that still have it.
// Units:   tokens. Threads: one. Fails: never. Cost: add() and find(): O(prompt); evict(): O(tree).
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/types.h"

namespace espalier::bench {

class PromptTree {
 public:
  explicit PromptTree(int servers) : sizes_(static_cast<std::size_t>(servers)) { nodes_.emplace_back(); }

  struct Found {
    int length = 0;
    int server = -1;  // -1: nobody's
  };
  Found find(std::span<const TokenId> prompt);
  void add(std::span<const TokenId> prompt, int server);
  // Of every server with more than so many tokens, the ends that were used longest ago leave.
  void evict(std::int64_t most_tokens);

  std::span<const std::int64_t> sizes() const { return sizes_; }  // tokens of each server
  std::size_t nodes() const { return by_first_.size(); }

 private:
  using Index = std::uint32_t;
  struct Seen {
    int server;
    std::uint64_t last;  // use as the end of a prompt; 0: never
  };
  struct Node {
    std::vector<TokenId> run;
    std::vector<Seen> seen;
    std::vector<Index> children;
    Index parent = 0;
    int first_server = -1;
    Seen* of(int server);
    int owner() const;
  };
  struct Hash {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t key) const {
      key *= 0x9e3779b97f4a7c15u;
      return key ^ (key >> 32);
    }
  };

  static std::uint64_t key(Index node, TokenId first) {
    return (static_cast<std::uint64_t>(node) << 32) | static_cast<std::uint32_t>(first);
  }
  Index child(Index node, TokenId first) const;
  Index new_node(Index parent, std::span<const TokenId> run);
  Index split(Index node, std::size_t length);
  void see(Index node, int server);
  bool is_end(Index node, int server);
  void leave(Index node, int server);

  std::vector<Node> nodes_;  // 0: the start of every prompt
  std::vector<Index> free_;
  boost::unordered_flat_map<std::uint64_t, Index, Hash> by_first_;
  std::vector<std::int64_t> sizes_;
  std::uint64_t time_ = 0;
};

}  // namespace espalier::bench
