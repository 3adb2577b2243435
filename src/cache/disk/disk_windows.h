// disk_windows.h: what is read through a window of the prefixes on disk: kept beside their tokens, in groups of blocks, and put
// back into window slots.
//
// A prefix is gone on from where all is there that its next row reads, in memory or on disk. What of a window is in neither
// makes it shorter.
// Units:   tokens, positions, blocks of kBlockTokens. Threads: the engine thread. Fails: store() drops, place() says that there
//          is no room. Order: tier, window slots and copier outlive it.
// docs/decisions/windows.md
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cache/disk/disk_tier.h"
#include "cache/disk/window_path.h"
#include "cache/slots/window_slots.h"

namespace espalier {

// Moves what window slots hold between these and bytes; the form of a block of 16 tokens is its business.
class WindowCopier {
 public:
  virtual ~WindowCopier() = default;
  virtual std::size_t window_block_bytes() const = 0;
  // Of window slots in the order of their tokens; a block behind the other.
  virtual void copy_window_out(const ExtentList& window_slots, std::span<std::byte> blocks) = 0;
  // The window slots get the tokens of the blocks from number `first_token` on.
  virtual void copy_window_in(std::span<const std::byte> blocks, int first_token, const ExtentList& window_slots) = 0;
};

// Stores windows, and plans and carries out their return.
class DiskWindows {
 public:
  using MakeRoom = std::function<void(int)>;  // so many window slots are free afterwards, if nobody reads too many

  DiskWindows(DiskTier& tier, WindowSlots& windows, WindowCopier& copier, MakeRoom make_room)
      : tier_(tier), windows_(windows), copier_(copier), make_room_(std::move(make_room)) {}

  // Stores what is there of the groups of positions [first, end), the last one up to `end`. slots: of the tokens from the group of
  // `first` on (first_of). False: the tier takes no more for now.
  bool store(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& slots, int first, int end,
             DiskTier::WaitLimit wait_limit, bool only_if_it_pays);
  static int first_of(int position) { return position / kGroupTokens * kGroupTokens; }

  struct GroupRead {
    WindowGroup group;
    DiskTier::Ranges ranges;
  };
  // How much of `tokens`, at most `most`, can be gone on from, and which groups are to be read for it. held: the slots of their
  // first positions, as far as the tree has these.
  struct Plan {
    int end = 0;
    std::vector<GroupRead> reads;
  };
  Plan plan(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& held, int most) const;
  int first_read(int end) const { return windows_.first_read(end); }

  // A group that is being read.
  struct Reading {
    DiskTier::LoadId load = 0;
    WindowGroup group;
    std::vector<std::byte> bytes;
  };
  Reading load(std::string_view scope, std::span<const TokenId> tokens, const GroupRead& read);
  void take(Reading& reading, const DiskTier::Loaded& piece) const;
  // All of it was taken. slots: of the group's tokens as far as the prefix goes; those that lack their window slots get them.
  bool place(const Reading& reading, const ExtentList& slots);

 private:
  using Groups = std::vector<WindowGroup>;
  struct Source {
    int from;
    const WindowGroup* group;
  };

  int payload(WindowGroup group) const;
  int last_lacking(const ExtentList& slots) const;
  ExtentList window_slots_of(const ExtentList& slots) const;
  bool store_group(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& slots, WindowGroup group,
                   DiskTier::WaitLimit wait_limit, bool only_if_it_pays);
  Source source_of(const ExtentList& held, const Groups& kept, int first, int to) const;
  int last_readable(const ExtentList& held, const Groups& kept, int most) const;
  bool in_memory(const ExtentList& held, int from, int to) const;
  GroupRead find(std::string_view scope, std::span<const TokenId> tokens, WindowGroup group) const;

  DiskTier& tier_;
  WindowSlots& windows_;
  WindowCopier& copier_;
  const MakeRoom make_room_;
  SlotCursor cursor_;
  std::vector<std::byte> bytes_;  // kept to reuse memory
};

}  // namespace espalier
