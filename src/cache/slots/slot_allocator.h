// slot_allocator.h: who owns which slot of the token pool, and where a growing sequence gets its next one.
//
// The aim is long extents: kernels stream an extent as one piece. So
//  - a sequence grows in place behind its last slot while it can;
//  - behind a growing sequence some free slots are kept for it ("reserved": soft, taken from others only when memory is
//    short), more of them each time it had to move on;
//  - a new place is the smallest free run that holds the request and its reserve (best fit), and starts where
//    slot % group == position % group, because the engine stores keys in groups of 16 slots and attention walks
//    blocks of 16 positions: then a block is a group.
//
// Units:   slots; one slot holds one token.
// Threads: the engine thread owns it; nobody else calls it.
// Cost:    O(log free runs) for each extent handed out or given back.
// Fails:   allocate() of more than is free returns nothing and changes nothing; giving back a slot that is free already
//          changes nothing and counts in faults().
// Order:   an allocator outlives its OwnedSlots and SlotCursors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cache/slots/extent.h"
#include "espalier/error.h"

namespace espalier {

class SlotAllocator;
class WindowSlots;

// Slots somebody holds privately. The destructor gives them back.
class OwnedSlots {
 public:
  OwnedSlots() = default;
  OwnedSlots(OwnedSlots&& other) noexcept;
  OwnedSlots& operator=(OwnedSlots&& other) noexcept;
  ~OwnedSlots() { reset(); }

  const ExtentList& extents() const { return extents_; }
  int length() const { return extents_.length(); }
  bool empty() const { return extents_.empty(); }
  const SlotAllocator* allocator() const { return allocator_; }

  void append(OwnedSlots&& more);    // Requires: both of one allocator, or either empty.
  OwnedSlots take_front(int count);  // splits off; both parts stay owned
  OwnedSlots take_back(int count);
  void reset();

  // The slots without their owner: whoever calls this gives them back by SlotAllocator::release (the radix tree does).
  ExtentList hand_over();

 private:
  friend class SlotAllocator;
  OwnedSlots(SlotAllocator* allocator, ExtentList extents) : allocator_(allocator), extents_(std::move(extents)) {}

  SlotAllocator* allocator_ = nullptr;
  ExtentList extents_;
};

// Where one sequence's next slot should go. While it lives, the free slots behind the sequence are softly reserved.
class SlotCursor {
 public:
  SlotCursor() = default;  // of no allocator: allocate() binds it on first use
  SlotCursor(SlotCursor&& other) noexcept { swap(other); }
  SlotCursor& operator=(SlotCursor&& other) noexcept;
  ~SlotCursor() { reset(); }

  // The sequence now ends with `last` (its slot at position `length` - 1): after a prefix was matched, after its slots
  // were exchanged for the tree's, after a roll-back. `last` = -1 starts anywhere.
  void follow(Slot last, int length);
  void reset();  // gives up the reserve

 private:
  friend class SlotAllocator;
  void swap(SlotCursor& other) noexcept;

  SlotAllocator* allocator_ = nullptr;
  std::uint64_t id_ = 0;  // 0: not bound yet
  Slot next_ = -1;        // the slot behind the last one; -1 = none
  int position_ = 0;      // position of the next token in its sequence
  int reserve_ = 0;       // slots to keep free behind the last one
};

// Hands out slots so that a growing sequence stays in long extents, and takes them back.
class SlotAllocator {
 public:
  static constexpr int most_slots = 1 << 30;
  static constexpr int group = 16;          // slots of one stored group of keys
  static constexpr int first_reserve = 64;  // slots kept behind a sequence at first,
  static constexpr int last_reserve = 512;  // and at most, doubling whenever it had to move on

  // 0..most_slots; cut to that range. windows: those of these slots go when they do; null: there are none.
  explicit SlotAllocator(int capacity, WindowSlots* windows = nullptr);
  SlotAllocator(const SlotAllocator&) = delete;
  SlotAllocator& operator=(const SlotAllocator&) = delete;

  // `count` slots in as few extents as possible; nothing when fewer are free (reserved ones count as free).
  std::optional<OwnedSlots> allocate(int count);
  std::optional<OwnedSlots> allocate(int count, SlotCursor& cursor);  // ... preferably behind the cursor

  // Gives back slots that were handed over. Requires: allocated and owned by nobody else.
  void release(const ExtentList& slots);

  WindowSlots* windows() const { return windows_; }
  int capacity() const { return capacity_; }
  int free_slots() const { return free_; }
  int reserved_slots() const { return reserved_; }      // free, but kept for some sequence
  int held_slots() const { return held_; }              // in OwnedSlots
  int used_slots() const { return capacity_ - free_; }  // held, or handed over
  int reached() const { return reached_; }              // slots from here on were never handed out
  int longest_free_run() const { return plain_.empty() ? 0 : plain_.rbegin()->first; }  // not reserved
  int room_in_place(const SlotCursor& cursor) const;  // slots that are free right behind the cursor's last one
  int free_runs() const { return static_cast<int>(runs_.size()); }
  std::int64_t faults() const { return faults_; }

  bool is_free(Slot slot) const;
  Result<> check() const;  // all invariants, O(free runs)

 private:
  friend class OwnedSlots;
  friend class SlotCursor;

  struct FreeRun {
    int length = 0;
    std::uint64_t owner = 0;  // the cursor it is reserved for; 0 = plain
  };
  using Runs = std::map<Slot, FreeRun>;
  using BySize = std::set<std::pair<int, Slot>>;  // (length, start)

  void add_run(Slot start, int length, std::uint64_t owner);
  void remove_run(Runs::const_iterator run);
  void take_from(Runs::const_iterator run, Slot start, int length);  // cuts [start, start + length) out of a free run
  void add_plain(Slot start, int length);                            // add_run, merged with plain neighbours
  bool release(Extent slots);

  Runs::const_iterator run_at(const SlotCursor& cursor) const;  // end() when it cannot grow in place
  Extent grow_in_place(int count, const SlotCursor& cursor);
  Extent new_place(int count, int position, int reserve);
  Extent place_in(Runs::const_iterator run, int count, int position);
  void steal();
  void reserve_after(SlotCursor& cursor);
  void unreserve(const SlotCursor& cursor);
  BySize& index_of(std::uint64_t owner) { return owner == 0 ? plain_ : kept_; }

  WindowSlots* const windows_;
  int capacity_ = 0;
  int free_ = 0;
  int reserved_ = 0;
  int held_ = 0;
  int reached_ = 0;
  std::int64_t faults_ = 0;
  std::uint64_t last_id_ = 0;
  Runs runs_;     // every free slot is in exactly one run; plain neighbours are merged
  BySize plain_;  // the plain runs, by length
  BySize kept_;   // the reserved runs, by length
};

}  // namespace espalier
