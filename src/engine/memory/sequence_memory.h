// sequence_memory.h: all memory of sequences: token slots, the tree of prefixes, recurrent states, window slots and the
// disk tier; what finds room in it, and slots and states for what runs.
//
// Units: tokens, slots. Threads: the engine thread. Fails: fits() and take() say when there is no room. Order: outlives
// every sequence.
#pragma once

#include <memory>

#include "cache/disk/disk_prefixes.h"
#include "cache/events/cache_events.h"
#include "cache/tree/radix_tree.h"
#include "engine/engine_metrics.h"
#include "engine/memory/pins.h"
#include "engine/memory/sequence_states.h"
#include "engine/memory/sequence_windows.h"
#include "engine/schedule/expected_demand.h"
#include "engine/step/core_options.h"
#include "engine/step/sequence_lists.h"
#include "engine/step/step.h"
#include "espalier/engine.h"

namespace espalier {

// The parts of the pool, and questions that concern several of them.
class SequenceMemory {
 public:
  SequenceMemory(const CoreOptions& options, int slots, const SequenceLists& sequences, const ExpectedDemand& demand,
                 EngineMetrics& metrics);

  // Evicted prefixes go to `tier` from now on, and come back when a request needs them.
  // windows: null where all lies in one space.
  void attach(std::unique_ptr<DiskTier> tier, SlotCopier& copier, WindowCopier* windows, bool store_evicted);

  SlotAllocator& slots() { return allocator_; }
  const SlotAllocator& slots() const { return allocator_; }
  RadixTree& tree() { return tree_; }
  const RadixTree& tree() const { return tree_; }
  SequenceStates& states() { return states_; }
  Pins& pins() { return pins_; }
  DiskPrefixes* disk() { return disk_.get(); }  // null: no disk tier
  RemotePrefixes* remote() {
    return disk_ ? disk_->fleet().prefixes() : nullptr;
  }  // null: nothing goes to other servers
  bool shares_prefixes() const { return options_.radix_cache; }

  // --- room ---
  int room() const;         // slots that are left when those who run have what they will want
  int window_room() const;  // likewise
  int state_room() const;   // sequences more that would find a cell
  // Whether there is room for one more. With what was matched of it: its prefix is pinned and no longer room for others.
  bool fits(const Sequence& waiting) const;
  bool fits(const Sequence& waiting, const Match& match) const;

  // --- for a step ---
  // What a chunk must have; guesses in it that find no second cell are taken out.
  bool take(ScheduledChunk& chunk);
  // For guesses, before it is known how far the chunk will reach; what is left over goes back with what was refused.
  bool take_slots_to_guess(Sequence& sequence, int length);

  // The tree holds all of the key from now on, in slots that nothing was written to; how many tokens it does hold: fewer
  // where the pool has no room beside what runs.
  int bring(const CacheKey& key);

  void watch();                                    // collects from now on what the cache takes in and lets go of
  CacheEvents* events() { return events_.get(); }  // null: nobody watches

  void clear();  // all but what runs
  void report(EngineStatus& status) const;
  Result<> check() const;

 private:
  bool take_slots(Sequence& sequence, int count);
  bool take_state(ScheduledChunk& chunk);
  void make_place(const Sequence& sequence, int count);
  Result<> check_slots() const;
  Result<> check_states() const;

  const CoreOptions& options_;
  const SequenceLists& sequences_;
  const ExpectedDemand& demand_;
  EngineMetrics& metrics_;
  std::unique_ptr<CacheEvents> events_;        // outlives what it watches
  std::unique_ptr<WindowSlots> window_slots_;  // null: all lies in one space
  SlotAllocator allocator_;                    // this and the next outlive the tree
  StateCells state_cells_;
  RadixTree tree_;
  SequenceStates states_;
  Pins pins_;
  SequenceWindows windows_;
  std::unique_ptr<DiskPrefixes> disk_;
};

}  // namespace espalier
