// eviction.h: which unpinned leaf of the radix tree goes first, and the heap that finds it.
//
// A policy turns what is known of a leaf into a rank; the lowest rank is evicted first. The rank is taken once, when a
// leaf becomes evictable (its last pin or its last child went away), so a change costs O(log leaves).
// Threads: the engine thread. Fails: never.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace espalier {

// What a policy is told of a leaf: when and how often it was used, and where its tokens stand.
struct NodeUse {
  std::uint64_t last_use = 0;  // logical clock of the tree; distinct for leaves
  std::uint32_t hits = 0;      // matches that went through the node
  int begin = 0, end = 0;      // positions of its tokens in their sequence
};

// The place of a leaf in the order of eviction; the lowest goes first.
struct EvictionRank {
  double value = 0;
  std::uint64_t last_use = 0;  // decides between equal values
  auto operator<=>(const EvictionRank&) const = default;
};

// Ranks leaves by what is known of their use.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual EvictionRank rank(const NodeUse& use) const = 0;
  virtual void evicted(const EvictionRank&) {}
};

// The policies that there are, as --eviction-policy names them.
enum class EvictionKind {
  lru,   // least recently used
  lfu,   // fewest hits, then least recently used
  cost,  // cheapest to compute again for what it is used: hits x cost of a token, ageing as others are evicted
};
std::unique_ptr<EvictionPolicy> make_eviction_policy(EvictionKind kind);

// A binary heap of node indices that knows where each node stands, so that any of them can be removed.
class EvictionHeap {
 public:
  static constexpr std::uint32_t absent = UINT32_MAX;
  struct Item {
    EvictionRank rank;
    std::uint32_t node = 0;
    auto operator<=>(const Item&) const = default;
  };

  bool empty() const { return items_.empty(); }
  const Item& lowest() const { return items_.front(); }  // Requires: not empty.
  bool contains(std::uint32_t node) const { return node < place_.size() && place_[node] != absent; }
  std::span<const Item> items() const { return items_; }

  void push(std::uint32_t node, EvictionRank rank);  // Requires: not contained.
  void remove(std::uint32_t node);                   // nothing when not contained
  bool consistent() const;

 private:
  void put(std::size_t at, Item item);
  void rise(std::size_t at, Item item);
  void sink(std::size_t at, Item item);

  std::vector<Item> items_;
  std::vector<std::uint32_t> place_;  // node -> index in items_
};

}  // namespace espalier
