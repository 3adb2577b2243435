// window_slots.h: the second space of slots, for what of a token is read only as long as a window reaches it.
//
// A model whose layers see the last so many tokens (or those of a chunk) keeps most of its keys and values for nothing
// once the window has passed. What whole texts read lies in a token's slot; what is read through a window lies in a
// second slot, which the first one knows: it is given with the first, goes with it at the latest, and may go before.
// So whoever shares, frees or moves slots of the first space need not know of the second.
// docs/decisions/windows.md
//
// Units:   slots; `slots` are those of the first space, window slots those of the second.
// Threads: the engine thread owns it; nobody else calls it.
// Cost:    O(slots) of what is given; giving, freeing and finding gaps go at memory speed, plus O(log) an extent.
// Fails:   give() when not so many are free.
// Order:   outlives the SlotAllocator of the first space.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cache/slots/slot_allocator.h"

namespace espalier {

// Which positions a row reads through the window, at most.
struct WindowRule {
  std::function<int(int)> first;  // of a row at this position
  int most = 0;                   // positions, its own too
};

// Which slot has which window slot, and who gets the next ones.
class WindowSlots {
 public:
  WindowSlots(int slots, int window_slots, WindowRule rule);

  // Behind so many tokens: the first position that the next one reads. What lies before is read never again.
  int first_read(int tokens) const { return rule_.first(tokens); }
  int most_read() const { return rule_.most; }

  // Each of the slots gets a window slot. Requires: they have none. False: not so many are free, and nothing changes.
  bool give(const ExtentList& slots, SlotCursor& cursor);
  int drop(const ExtentList& slots);  // gives back those that they have; how many
  int drop(Extent slots);
  // What `from` has and `to` lacks, slot by slot, is from now on `to`'s. Requires: as many slots, none in both.
  void move(const ExtentList& from, const ExtentList& to);

  Slot of(Slot slot) const { return of_[static_cast<std::size_t>(slot)]; }  // -1: none
  int last_lacking(Extent slots) const;  // the number, from the first, of the last one that has none; -1: all have one
  int count(Extent slots) const;         // how many have one
  // The window slots of slots that all have one, as extents in their order.
  template <class F>
  void for_each_extent(Extent slots, F&& visit) const {
    for (Slot slot = slots.start; slot < slots.end();) {
      const Slot first = of(slot);
      int length = 1;
      while (slot + length < slots.end() && of(slot + length) == first + length) ++length;
      visit(Extent{first, length});
      slot += length;
    }
  }

  // When something was last used, by whoever's clock; groups of window slots share a time.
  void touch(Extent slots, std::uint64_t time);
  std::uint64_t last_use(Extent slots) const;

  SlotAllocator& pool() { return pool_; }
  const SlotAllocator& pool() const { return pool_; }
  Result<> check(const SlotAllocator& slots) const;  // no window slot twice, and none of a free slot

 private:
  std::vector<Slot> of_;                 // [slots]
  std::vector<std::uint64_t> last_use_;  // [window slots / SlotAllocator::group]
  SlotAllocator pool_;
  WindowRule rule_;
};

}  // namespace espalier
