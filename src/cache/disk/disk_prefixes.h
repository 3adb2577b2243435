// disk_prefixes.h: joins the radix tree and the disk tier: what the tree evicts is stored, and what a request needs is
// brought back into the tree before the request is admitted.
//
// A load pins the part of the prefix that the tree holds and extends it as pieces arrive; it never blocks, and it holds
// no slots but those in the tree. A request that shares the prefix of a load waits for it too. When the loaded tokens
// are there, the pin stays until every waiting request was admitted or left (forget), or memory runs short (give_up).
// Only whole blocks of tokens are stored; runs too short to be read faster than computed are not (transfer_rates.h).
// Snapshots of recurrent states are stored as they leave the tree (state_path.h), and a prefix is loaded up to one: keys
// and values that the tree lacks, and the state.
// What is read through a window is stored beside the tokens as it leaves the tree, before them or with them (disk_windows.h), and a
// prefix is loaded up to where all is there that its next row reads.
//
// What others have (cache/remote/fleet.h) is found by asking them first, and then read as if it lay on disk; so is what another server
// computes for a request at this moment (cache/peers/), which is read as it comes.
//
// Units:   tokens, positions. Threads: the engine thread. Fails: never: what cannot be had is computed.
// Order:   tree, allocator and copier outlive it.
#pragma once

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cache/disk/disk_tier.h"
#include "cache/disk/disk_windows.h"
#include "cache/disk/evicted_leaf.h"
#include "cache/disk/slot_copier.h"
#include "cache/disk/state_path.h"
#include "cache/disk/tree_path.h"
#include "cache/remote/fleet.h"
#include "cache/tree/radix_tree.h"
#include "cache/tree/tree_windows.h"

namespace espalier {

// What a waiting request remembers of its last question, so that asking again costs O(1) while nothing changed.
struct DiskMemory {
  std::uint64_t version = UINT64_MAX;
  int matched = -1;
  int loads = 0;
  AskedOthers asked;
};

// Stores what the tree evicts, and loads prefixes back for requests that wait for them.
class DiskPrefixes final : public EvictionObserver {
 public:
  struct LoadRequest {
    std::uint64_t owner = 0;  // the request
    CacheKey key;
    int limit = 0;                               // how many of its tokens may come from a cache
    int matched = 0;                             // how many the tree holds, with their state where one is kept
    int room = std::numeric_limits<int>::max();  // slots that may be filled for it
    const Handoff* handoff = nullptr;            // null: nobody else computes it
  };

  DiskPrefixes(std::unique_ptr<DiskTier> tier, RadixTree& tree, SlotAllocator& allocator, SlotCopier& copier,
               bool store_evicted = true);
  ~DiskPrefixes() override;
  // Of a model with window slots and without states. Call before anything else.
  void keep_windows(WindowCopier& copier, DiskWindows::MakeRoom make_room);
  // Whether the request should wait because more of its prefix is being read; begins to read it if that pays.
  bool wait_for(const LoadRequest& request, DiskMemory& memory);
  int forget(std::uint64_t owner);  // it was admitted, or left; how many tokens were read while it waited

  // Puts what was read into the tree, at most so many pieces: while others decode, copying must not keep them waiting.
  // Call between steps, and after a wake.
  void collect(int most_pieces = std::numeric_limits<int>::max());
  void computed(int tokens, double seconds);  // the engine computed that many prompt tokens
  bool give_up();                             // memory is short: all loads end; true when that let go of anything
  void clear();                               // empties tree (but what is pinned) and tier

  // Stores what the tree holds, the last used first, until the time is up or the tier is full of what was used later.
  // Returns the tokens that were written. The only call that waits for the disk.
  std::int64_t save(DiskTier::Time until);

  bool idle() const { return loads_.empty(); }
  int awaiting() const;  // requests that wait for what is being read, or an answer
  template <class F>
  void for_each_state(F&& visit) const {  // that loads have a share of
    for (const Load& load : loads_) visit(load.state);
  }
  void add_window_uses(std::vector<WindowUse>& to) const;  // what loads have brought and the next rows will read
  DiskTier& tier() { return *tier_; }
  Fleet& fleet() { return fleet_; }

  void evicting(const RadixTree& tree, NodeHandle node, int first_evicted_position) override;
  void evicting_state(const RadixTree& tree, NodeHandle node, int position, int cell) override;
  void evicting_windows(const RadixTree& tree, NodeHandle node, int begin, int end) override;

 private:
  struct Load {
    DiskTier::LoadId id = 0;         // of the last tokens, the state, or the last group of a window
    DiskTier::LoadId tokens_id = 0;  // of the tokens before these, if there are any
    std::vector<DiskWindows::Reading> windows;
    bool has(DiskTier::LoadId load) const;
    std::string scope;
    std::vector<TokenId> tokens;  // up to where it will hold them
    PinnedPrefix pin;             // up to where it holds them
    int held_before = 0;          // how many of them were of use before
    StateCell state;              // behind all of them, where one is kept
    SlotCursor cursor;
    std::set<std::uint64_t> owners;
    bool done = false;
  };
  using Path = TreePath;

  // What would be read for a request: tokens up to `end`, and where a state is kept, the one behind them.
  struct Plan {
    int end = 0, from = 0;  // tokens; the first block that is read of them
    int held = 0;           // tokens that the tree has, of use or not
    DiskTier::Ranges tokens, state;
    std::vector<DiskWindows::GroupRead> windows;
    int files() const;
    int tokens_read() const;
    void keep_tokens(int count);  // reads no blocks behind so many
  };

  Load* load_for(const LoadRequest& request);
  Plan plan_of(const LoadRequest& request) const;
  Plan plan_to_state(const LoadRequest& request) const;
  void add_windows(const LoadRequest& request, Plan& plan) const;
  bool in_host_memory(const Plan& plan) const;
  bool pays(const Plan& plan, int gain);
  bool begin(const LoadRequest& request, const Plan& plan);
  void stop(const Load& load);
  void settle_copies();
  bool place(Load& load, std::span<const std::byte> blocks, int first_block, int end);
  bool place_state(Load& load, const DiskTier::Loaded& piece);
  bool place_window(Load& load, const DiskTier::Loaded& piece);
  void take(const DiskTier::Loaded& piece);
  std::optional<OwnedSlots> take_slots(int count, SlotCursor& cursor);
  DiskTier::Store store(std::string_view scope, const Path& path, DiskTier::Piece piece,
                        DiskTier::WaitLimit wait_limit);
  bool store_state(const SnapshotView& snapshot, DiskTier::WaitLimit wait_limit);
  void store_lost_windows(NodeHandle node, int cut);
  static int window_end(const RadixTree::NodeView& view, int end);
  bool store_windows(NodeHandle node, int first, int end, DiskTier::WaitLimit wait_limit, bool only_if_it_pays);
  StateBlocks blocks_of(int position) const;
  std::vector<NodeHandle> nodes_by_use() const;

  Fleet fleet_;  // outlives the tier, whose threads read for it
  const std::unique_ptr<DiskTier> tier_;
  RadixTree& tree_;
  SlotAllocator& allocator_;
  SlotCopier& copier_;
  std::optional<DiskWindows> windows_;  // none: all lies in one space
  const bool store_evicted_;
  bool paused_ = false;
  std::vector<Load> loads_;
  std::deque<DiskTier::Loaded> arrived_;  // read, not yet placed
  std::vector<IoBuffer> copied_from_;     // whose copies are not settled

  EvictedLeaf last_;
  // Of the leaf that windows were evicted of last: everything from this position on is stored (or was dropped).
  struct StoredWindows {
    std::uint32_t node = UINT32_MAX;
    int end = 0, stored_from = 0;
  };
  StoredWindows last_windows_;
};

}  // namespace espalier
