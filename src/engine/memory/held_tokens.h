// held_tokens.h: what one sequence holds in a token pool: a prefix that a radix tree keeps, and slots of its own behind
// it. The target model's pool and the draft model's have one each of every sequence.
// Where the model reads some layers through a window, its slots have window slots (cache/slots/window_slots.h), its own ones as
// long as the window reaches them.
//
// Units: positions and lengths in tokens. Threads: the engine thread. Fails: grow() when the pool has no room. Order:
// pool and tree outlive it; dropping it gives everything back.
#pragma once

#include <algorithm>
#include <span>

#include "cache/slots/slot_allocator.h"
#include "cache/slots/window_slots.h"
#include "cache/tree/radix_tree.h"

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

  // The window slots of all positions, in their order, for rows from position `first` on. Positions that these do not
  // see lie anywhere. Requires: those that they see have their window slots. Nothing where all lies in one space.
  template <class F>
  void for_each_window_extent(int first, F&& visit) const {
    if (windows_ == nullptr) return;
    const int from = windows_->first_read(first);
    for (int unseen = from; unseen > 0; unseen -= windows_->pool().capacity())
      visit(Extent{0, std::min(unseen, windows_->pool().capacity())});
    int position = 0;
    for_each_extent([&](Extent extent) {
      const int skipped = std::clamp(from - position, 0, extent.length);
      position += extent.length;
      windows_->for_each_extent({extent.start + skipped, extent.length - skipped}, visit);
    });
  }
  const WindowSlots* windows() const { return windows_; }  // null: there are none, or nothing was given yet

  // On what the tree has: a match. Requires: no slots of its own are held.
  void begin(PinnedPrefix prefix, ExtentList slots);
  int room_in_place(const SlotAllocator& allocator) const { return allocator.room_in_place(cursor_); }
  bool grow(SlotAllocator& allocator, int count);
  void keep_first(int length);  // its own slots behind so many positions go back
  // Its own window slots that no row behind so many tokens reads go back, in pieces.
  void forget_behind_window(int tokens);
  // The positions before `end` are the tree's from now on, in slots that it may have had for them: those hold the same
  // bits (promise 1). `tokens` and `whole` spans of them are the sequence's. Without a cache nothing happens.
  void give_to(RadixTree& tree, std::span<const TokenId> tokens, int end, std::span<const TokenSpan> whole = {});
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
  WindowSlots* windows_ = nullptr;
  SlotCursor window_cursor_;
  int window_from_ = 0;  // own positions before it have no window slots any more
};

}  // namespace espalier
