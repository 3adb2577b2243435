// held_tokens.h: what one sequence holds in a token pool: a prefix that a radix tree keeps, and slots of its own behind
// it. The target model's pool and the draft model's have one each of every sequence.
//
// Units: positions and lengths in tokens. Threads: the engine thread. Fails: grow() when the pool has no room. Order:
// pool and tree outlive it; dropping it gives everything back.
#pragma once

#include <span>

#include "cache/radix_tree.h"
#include "cache/slot_allocator.h"

namespace espalier {

// The slots of one sequence: a pinned prefix of the tree, then slots of its own.
class HeldTokens {
 public:
  int length() const { return shared_.length() + own_.length(); }
  int own_length() const { return own_.length(); }
  int extents() const;  // that for_each_extent() visits
  const ExtentList& tree_slots() const { return shared_; }
  bool in_tree() const { return prefix_.valid(); }  // also with nothing there yet; false without a cache
  Slot slot_at(int position) const;
  // In the order of positions. Where a sequence grows right behind the tree's slots, both are one extent.
  template <class F>
  void for_each_extent(F&& visit) const {
    Extent last{};
    auto next = [&](const Extent& extent) {
      if (last.length > 0 && last.end() == extent.start) {
        last.length += extent.length;
        return;
      }
      if (last.length > 0) visit(last);
      last = extent;
    };
    for (const Extent& extent : shared_.extents()) next(extent);
    for (const Extent& extent : own_.extents().extents()) next(extent);
    if (last.length > 0) visit(last);
  }

  // On what the tree has: a match. Requires: no slots of its own are held.
  void begin(PinnedPrefix prefix, ExtentList slots);
  int room_in_place(const SlotAllocator& allocator) const { return allocator.room_in_place(cursor_); }
  bool grow(SlotAllocator& allocator, int count);
  void keep_first(int length);  // its own slots behind so many positions go back
  // The positions before `end` are the tree's from now on, in slots that it may have had for them: those hold the same
  // bits (promise 1). `tokens` are the sequence's. Without a cache nothing happens.
  void give_to(RadixTree& tree, std::span<const TokenId> tokens, int end);
  const PinnedPrefix& prefix() const { return prefix_; }
  int tokens_only_its_own(const RadixTree& tree) const {  // what nobody else holds, in the tree or beside it
    return own_.length() + (in_tree() ? tree.tokens_only_of(prefix_) : 0);
  }
  void look_up(const RadixTree& tree);  // after somebody moved what the tree holds
  void reset() { *this = HeldTokens(); }

 private:
  void follow(int length);

  PinnedPrefix prefix_;  // the part the tree holds (invalid without a cache)
  ExtentList shared_;    // its slots
  OwnedSlots own_;       // slots of the tokens behind it
  SlotCursor cursor_;
};

}  // namespace espalier
