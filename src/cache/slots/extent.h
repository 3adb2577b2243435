// extent.h: runs of slots. A sequence's keys and values lie in slots; an ExtentList names them in position order.
//
// Units:   one slot holds one token; positions count from the start of the list.
// Threads: values; share them like any other value.
// Fails:   counts and positions out of range are cut to what there is; slot_at() of a position outside is -1.
#pragma once

#include <boost/container/small_vector.hpp>
#include <span>

#include "espalier/types.h"

namespace espalier {

// A run of consecutive slots.
struct Extent {
  Slot start = 0;
  int length = 0;

  Slot end() const { return start + length; }
  bool operator==(const Extent&) const = default;
};

// Neighbouring extents are always merged, so a list of one extent is one streamable piece of memory.
class ExtentList {
 public:
  ExtentList() = default;
  explicit ExtentList(Extent only) { append(only); }

  int length() const { return ends_.empty() ? 0 : ends_.back(); }
  bool empty() const { return ends_.empty(); }
  std::span<const Extent> extents() const { return {extents_.data(), extents_.size()}; }
  Slot slot_at(int position) const;      // O(log extents)
  int extent_begin(int position) const;  // where the extent that holds it begins; -1 outside
  Slot last_slot() const { return extents_.empty() ? -1 : extents_.back().end() - 1; }

  void append(Extent more);
  void append(const ExtentList& more) { append(more, 0, more.length()); }
  void append(const ExtentList& from, int first, int count);
  ExtentList slice(int first, int count) const;
  ExtentList take_front(int count);  // removes the first `count` slots and returns them
  ExtentList take_back(int count);   // removes the last `count` slots and returns them, still in position order
  void replace(int first, const ExtentList& with);  // the slots of as many positions from `first` on
  void clear();

  bool operator==(const ExtentList& other) const { return extents_ == other.extents_; }

 private:
  std::size_t index_of(int position) const;

  // Most sequences lie in a handful of extents; those need no memory of their own.
  boost::container::small_vector<Extent, 4> extents_;
  boost::container::small_vector<int, 4> ends_;  // ends_[i]: positions covered by extents 0..i
};

}  // namespace espalier
