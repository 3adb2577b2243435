// radix_tree.h: the longest prefix of a token sequence whose keys and values we still hold.
//
// A tree per scope (the key's name space); an edge is a run of tokens with the slots of their keys and values. Prefixes
// are shared at any token. What a sequence uses is pinned; everything else may be evicted, leaf first and from the end
// of a leaf, exactly as many tokens as are wanted.
// Of a model that keeps a recurrent state, tokens alone are of no use: snapshots of the state stand at some positions,
// and a match goes back to the last one. They have an order of eviction of their own, and go with their tokens.
// Of a model that reads some fields through a window, tokens may have lost their window slots (window_slots.h): a match
// goes back to where all that the window reaches is there. These too go in an order of their own, or with their tokens.
//
// Units:   lengths and positions in tokens; one slot a token.
// Threads: the engine thread owns it; nobody else calls it.
// Cost:    match: O(matched tokens), at memory speed, plus the nodes on the path; O(1) when the first token differs.
//          extend: O(given tokens). split: O(1) (both halves look into one shared run). evict: O(log leaves) a leaf.
//          Nothing recurses. Going back to a snapshot: O(nodes passed); letting go of one: O(all cells).
//          Window slots: match: O(window) more, O(what is held) where some are gone; evict_windows: O(tree).
// Fails:   never; evict() says how many tokens it freed. Time is a counter: the same calls give the same tree.
// Order:   allocator and cells outlive tree, tree outlives its pins.
// Source:  RadixAttention, from the SGLang paper (arXiv 2312.07104).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/slots/extent.h"
#include "cache/slots/slot_allocator.h"
#include "cache/slots/state_cells.h"
#include "cache/slots/window_slots.h"
#include "cache/tree/eviction.h"
#include "cache/tree/recent_set.h"
#include "cache/tree/tree_nodes.h"
#include "cache/tree/tree_snapshots.h"
#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

// What is looked up. Keys of different scopes share nothing: adapter, tenant salt, length class of a length-dependent
// RoPE, all joined by the engine into one string that is compared as a whole.
// Token ids need not lie in the vocabulary. A picture's place-holders carry ids that stand for its content; equal ids
// must mean equal content (number the content hashes, do not truncate them).
struct CacheKey {
  std::string_view scope;
  std::span<const TokenId> tokens;
  std::span<const TokenSpan> whole = {};  // ascending, disjoint: spans no match may end in (bidirectional pictures)
};

// How much of a key may be matched, and in which steps.
struct MatchLimit {
  int length = std::numeric_limits<int>::max();  // e.g. prompt length - 1, or where log-probabilities start
  int multiple = 1;                              // the match is a multiple of this many tokens
  bool with_state = true;                        // false: tokens are asked for, whether their state was kept or not
  bool with_window = true;                       // false: whether what a window reads was kept or not
};

// The longest match of at most `length` tokens that key and limit allow.
int shorten(int length, const CacheKey& key, MatchLimit limit);

// Why a match is no longer than it is.
enum class MatchEnd {
  whole_key,  // all of the key is held
  limit,      // the limit, the multiple or a whole span ended it; more is held
  cold,       // nothing of this scope begins with the key's first token
  diverged,   // other sequences continue differently here
  tree_end,   // what is held ends here and was never longer
  evicted,    // what followed here was evicted not long ago
  no_state,   // more tokens are held, but the state behind them was not kept
  no_window,  // more tokens are held, but what a window reads of them was not kept
};
std::string_view name(MatchEnd end);

class RadixTree;

// While it lives, its tokens and those before them cannot be evicted.
class PinnedPrefix {
 public:
  PinnedPrefix() = default;
  PinnedPrefix(PinnedPrefix&& other) noexcept
      : tree_(std::exchange(other.tree_, nullptr)), node_(other.node_), length_(std::exchange(other.length_, 0)) {}
  PinnedPrefix& operator=(PinnedPrefix&& other) noexcept;
  ~PinnedPrefix() { reset(); }

  bool valid() const { return tree_ != nullptr; }
  int length() const { return length_; }
  PinnedPrefix share() const;  // a second pin of the same prefix: fork
  void reset();

 private:
  friend class RadixTree;
  friend class TreeWindows;
  PinnedPrefix(RadixTree* tree, std::uint32_t node, int length) : tree_(tree), node_(node), length_(length) {}

  RadixTree* tree_ = nullptr;
  std::uint32_t node_ = 0;  // the prefix ends where this node ends
  int length_ = 0;
};

// The longest held prefix of a key: its slots, pinned for as long as `pin` lives.
struct Match {
  int length = 0;
  int held = 0;        // the tokens that are held: length goes back to the last snapshot and window at or before them
  ExtentList extents;  // of the tokens [0, length)
  MatchEnd end = MatchEnd::cold;
  PinnedPrefix pin;  // valid also at length 0: later extend() calls start from it
  StateCell state;   // after `length` tokens; empty at length 0
};

// As Match, without pinning and without counting as a use.
struct Peek {
  int length = 0;
  int held = 0;  // as in Match
  MatchEnd end = MatchEnd::cold;
  NodeHandle node;  // holds the last matched token; stale when length is 0
};

// What a waiting request remembers of its last peek(), so that the next one costs O(change).
struct PeekMemory {
  Peek last;
  std::uint64_t version = UINT64_MAX;
};

// What an insertion found held already, and where all the tokens are now.
struct Insertion {
  int already_held = 0;   // of the given tokens, how many (from the first) the tree had before
  ExtentList extents;     // the tree's slots for all given tokens: what the sequence uses from now on
  OwnedSlots duplicates;  // the given slots of the tokens that were held; drop them once nothing reads them
};

// One node on the way from the root to a leaf, and which positions its tokens have.
struct PathStep {
  NodeHandle node;
  int begin = 0, end = 0;
};

// What the tree holds and has done, for metrics and tests.
struct TreeStatistics {
  std::int64_t nodes = 0, evictable_leaves = 0, scopes = 0;
  std::int64_t evictable_tokens = 0, protected_tokens = 0;
  std::int64_t matches = 0, hit_tokens = 0, asked_tokens = 0;
  std::int64_t inserted_tokens = 0, duplicate_tokens = 0, evicted_tokens = 0;
  std::int64_t states = 0, left_states = 0, evicted_states = 0;  // snapshots: now; since the start
  std::int64_t evicted_windows = 0;                              // window slots of tokens that stayed
  std::int64_t faults = 0;  // calls that broke a "Requires"; nothing was changed by them
};

// Told of every run that is about to be evicted, while its slots still hold it (a later tier copies it out).
class EvictionObserver {
 public:
  virtual ~EvictionObserver() = default;
  virtual void evicting(const RadixTree& tree, NodeHandle node, int first_evicted_position) = 0;
  // And of every snapshot: of the state after `position` tokens, which stands in the node.
  virtual void evicting_state(const RadixTree& /*tree*/, NodeHandle /*node*/, int /*position*/, int /*cell*/) {}
  // And of the window slots of positions [begin, end), all in the node, where a sequence may go on behind them.
  virtual void evicting_windows(const RadixTree& /*tree*/, NodeHandle /*node*/, int /*begin*/, int /*end*/) {}
};

// Told of every run of tokens that comes and goes.
class TreeWatcher {
 public:
  virtual ~TreeWatcher() = default;
  // Positions [begin, end) of the node's sequence are held now; they end with the node.
  virtual void inserted(const RadixTree& tree, NodeHandle node, int begin, int end) = 0;
  // They are about to go; likewise.
  virtual void leaving(const RadixTree& tree, NodeHandle node, int begin, int end) = 0;
};

// The prefixes that are held, by scope and tokens; owns their slots, and evicts the unpinned.
class RadixTree : private TreeNodes {
 public:
  // With cells, of a model that keeps a state.
  explicit RadixTree(SlotAllocator& allocator, EvictionKind eviction = EvictionKind::lru, StateCells* cells = nullptr);
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;
  ~RadixTree();

  // Pins the longest held prefix of the key.
  Match match(const CacheKey& key, MatchLimit limit = {});

  // As match(), but changes nothing: for planning. With a memory of the same key and limit, O(1) while nothing was
  // inserted or evicted, else O(newly matched tokens).
  Peek peek(const CacheKey& key, MatchLimit limit = {}, PeekMemory* memory = nullptr) const;

  // The tokens behind `prefix` and their slots go to the tree, and the pin moves to their end. The tree keeps the
  // slots of tokens it does not hold yet. `whole`: as in CacheKey, positions counted from the start of the sequence.
  // Requires: prefix is a pin of this tree, slots are of its allocator and as many as the tokens. Else nothing is
  // inserted, the slots come back as duplicates and the extents are empty.
  Insertion extend(PinnedPrefix& prefix, std::span<const TokenId> tokens, OwnedSlots slots,
                   std::span<const TokenSpan> whole = {});
  Insertion insert(const CacheKey& key, OwnedSlots slots);  // extend() from the start, left unpinned

  // Frees up to `wanted` tokens and, lest long extents be cut into short extents, up to `more` to where the last one's
  // extent begins (beyond that only to keep a span whole); returns how many.
  int evict(int wanted, int more = 0);
  int evict_all() { return evict(std::numeric_limits<int>::max()); }

  // --- snapshots (tree_snapshots.h) ---
  // The state after the first `position` tokens of the prefix stays with them. Where one is already, that one stays:
  // it has the same bits. Requires: with cells, 0 < position <= prefix.length(). Else nothing is kept.
  void leave_state(const PinnedPrefix& prefix, int position, StateCell state);
  // Lets go of up to so many snapshots that nobody else has a share of; how many. First goes what saves least: the tokens
  // to the snapshot before it, times its uses but one, ageing as others go (GreedyDual, as EvictionKind::cost of tokens).
  int evict_states(int wanted) { return snapshots_.evict(wanted); }
  int evictable_states() const { return snapshots_.evictable(); }
  // Lets go of the snapshot in this cell, if there is one, whoever shares it.
  void forget_state(int cell) { snapshots_.forget(cell); }
  bool holds_state(int cell) const { return snapshots_.holds(cell); }
  std::vector<SnapshotView> states() const { return snapshots_.list(); }
  StateCells* cells() const { return snapshots_.cells(); }  // null: of a model that keeps no state

  // The last positions before `end`, on the path to and into `node`, lie in `slots` from now on, which hold the same
  // bits, and their old slots are free: lists of slots that were handed out for them are stale. Requires: a live
  // handle, end in its node, no more slots than positions, of this allocator. Else false, and nothing changes.
  bool move(NodeHandle node, int end, OwnedSlots slots);
  NodeHandle node(const PinnedPrefix& prefix) const { return handle(prefix.node_); }  // in which it ends

  // What a pin holds: its slots, its tokens, its nodes from the start (sequences whose paths begin alike share those).
  ExtentList extents(const PinnedPrefix& prefix) const;
  std::vector<TokenId> tokens(const PinnedPrefix& prefix) const;
  std::vector<PathStep> path(const PinnedPrefix& prefix) const;
  int tokens_only_of(const PinnedPrefix& prefix) const;  // that nothing else pins: evictable once it is dropped

  // A walk over everything, parents first, without recursion: snapshots, reports, policies over the tree.
  template <class F>
  void for_each(F&& visit) const {
    for (std::uint32_t n = first_node(); n != none; n = node_after(n)) visit(TreeNodes::view(n));
  }
  using TreeNodes::NodeView, TreeNodes::alive, TreeNodes::outline;
  NodeView view(NodeHandle handle) const { return TreeNodes::view(handle.index); }  // Requires: alive(handle).
  ExtentList extents(NodeHandle handle) const;  // of the node alone; empty when stale

  void observe(EvictionObserver* observer) { snapshots_.observe(observer_ = observer); }
  void window_slots_came() { ++version_; }  // what it holds has more of them than before
  TreeStatistics statistics() const;
  TreeWatcher* watcher = nullptr;  // null: nobody is told
  int held_tokens() const { return static_cast<int>(evictable_ + protected_); }
  int evictable_tokens() const { return static_cast<int>(evictable_); }
  Result<> check() const;  // every invariant, also against the allocator; O(tree)

 private:
  friend class PinnedPrefix;
  friend class RadixTreeCheck;
  friend class TreeWindows;

  MatchEnd why(const CacheKey& key, Walk full, int shortened) const;
  StateAt last_fitting_state(Walk at, const CacheKey& key, MatchLimit limit) const;
  void append_leaf(PinnedPrefix& prefix, std::span<const TokenId> tokens, const ExtentList& slots,
                   std::span<const TokenSpan> whole);
  bool can_grow(std::uint32_t n, const PinnedPrefix& prefix) const;
  void pin(std::uint32_t n);
  void unpin(std::uint32_t n);
  void became_free(std::uint32_t n);
  void touch_path(std::uint32_t n);
  int evict_from(std::uint32_t leaf, int wanted, int more);
  void remove_leaf(std::uint32_t leaf);

  SlotAllocator& allocator_;
  WindowSlots* const windows_;
  TreeSnapshots snapshots_;
  std::unique_ptr<EvictionPolicy> policy_;
  EvictionObserver* observer_ = nullptr;

  EvictionHeap leaves_;  // exactly the unprotected leaves
  RecentSet ghosts_;     // edges evicted not long ago

  std::int64_t evictable_ = 0, protected_ = 0;
  TreeStatistics counters_;
};

// A copy of the tree, for somebody who looks. O(what is told), however large the tree is.
CacheOutline outline_of(const RadixTree& tree, const CacheOutlineLimits& limits);

// The first `end` tokens of the sequence in which the node stands. Requires: a live handle, end up to its node's.
std::vector<TokenId> tokens_up_to(const RadixTree& tree, NodeHandle node, int end);

}  // namespace espalier
