// tree_snapshots.h: snapshots of recurrent states in a radix tree: where they stand, and which goes first.
//
// They stand in runs, by position; a split cuts nodes, not runs, so it leaves them where they are.
// Units: positions in tokens. Threads: the engine thread. Fails: never. Cost: last: O(nodes passed); letting go of one:
// O(all cells). Order: the cells outlive it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "cache/slots/state_cells.h"
#include "cache/tree/tree_nodes.h"
#include "espalier/error.h"

namespace espalier {

class EvictionObserver;
class RadixTree;

// Where a snapshot stands, and the clock of its last use.
struct SnapshotView {
  NodeHandle node;
  int position = 0, cell = 0;
  std::uint64_t last_use = 0;
};

// The snapshots of one tree, at most one a cell.
class TreeSnapshots {
 public:
  TreeSnapshots(TreeNodes& tree, const RadixTree& owner, StateCells* cells);  // null: of a model that keeps no state

  void observe(EvictionObserver* observer) { observer_ = observer; }
  StateCells* cells() const { return cells_; }
  bool holds(int cell) const { return cell >= 0 && snapshots_[static_cast<std::size_t>(cell)].share; }
  StateCell share(int cell) const { return snapshots_[static_cast<std::size_t>(cell)].share.share(); }
  // The last snapshot at or before the end of the walk, on its path.
  TreeNodes::StateAt last(TreeNodes::Walk at) const;

  void leave(std::uint32_t run, int position, StateCell state);  // where one is already, that one stays
  // Its rank is taken anew: what it saves may be more than it was, since others went. The first to use one makes it
  // less worth: a conversation goes on from each of its snapshots once, and never again; where many begin, more come.
  void use(int cell);
  int evict(int wanted);
  int evictable() const;
  void forget(int cell);
  void drop_behind(std::uint32_t run, int position);  // requires: the run still has its tokens
  std::vector<SnapshotView> list() const;

  int count() const;
  std::int64_t left() const { return left_; }        // since the start
  std::int64_t evicted() const { return evicted_; }  // likewise
  Result<> check() const;

 private:
  struct Rank {  // the lowest goes first
    std::uint64_t value = 0;
    std::uint64_t last_use = 0;
    int cell = -1;
    auto operator<=>(const Rank&) const = default;
  };

  // What is known of the snapshot in a cell.
  struct Snapshot {
    StateCell share;  // empty: there is none
    std::uint32_t run = TreeNodes::none;
    int position = 0;
    std::uint32_t uses = 0;  // its being left is one
    Rank rank = {};
  };

  std::uint32_t node_of(const Snapshot& snapshot) const;
  void drop(int cell);

  TreeNodes& tree_;
  const RadixTree& owner_;
  StateCells* const cells_;
  EvictionObserver* observer_ = nullptr;
  std::vector<Snapshot> snapshots_;  // [cells]
  std::set<Rank> ranks_;
  std::uint64_t age_ = 0;  // the value of the last one that went
  std::int64_t left_ = 0, evicted_ = 0;
};

}  // namespace espalier
