#include "cache/slots/extent.h"

#include <algorithm>
#include <utility>

namespace espalier {

std::size_t ExtentList::index_of(int position) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
}

Slot ExtentList::slot_at(int position) const {
  if (position < 0 || position >= length()) return -1;
  std::size_t i = index_of(position);
  return extents_[i].end() - (ends_[i] - position);
}

int ExtentList::extent_begin(int position) const {
  if (position < 0 || position >= length()) return -1;
  const std::size_t i = index_of(position);
  return ends_[i] - extents_[i].length;
}

void ExtentList::append(Extent more) {
  if (more.length <= 0) return;
  if (!extents_.empty() && extents_.back().end() == more.start) {
    extents_.back().length += more.length;
    ends_.back() += more.length;
    return;
  }
  int total = length();
  extents_.push_back(more);
  ends_.push_back(total + more.length);
}

void ExtentList::append(const ExtentList& from, int first, int count) {
  first = std::clamp(first, 0, from.length());
  count = std::clamp(count, 0, from.length() - first);
  for (std::size_t i = from.index_of(first); count > 0; ++i) {
    Extent piece = from.extents_[i];
    int skipped = first - (from.ends_[i] - piece.length);
    piece = {piece.start + skipped, std::min(piece.length - skipped, count)};
    append(piece);
    first += piece.length;
    count -= piece.length;
  }
}

void ExtentList::replace(int first, const ExtentList& with) {
  ExtentList all = slice(0, first);
  all.append(with);
  all.append(*this, first + with.length(), length() - first - with.length());
  *this = std::move(all);
}

ExtentList ExtentList::slice(int first, int count) const {
  ExtentList result;
  result.append(*this, first, count);
  return result;
}

ExtentList ExtentList::take_front(int count) {
  count = std::clamp(count, 0, length());
  ExtentList front = slice(0, count);
  *this = slice(count, length() - count);
  return front;
}

ExtentList ExtentList::take_back(int count) {
  count = std::clamp(count, 0, length());
  ExtentList back = slice(length() - count, count);
  while (count > 0) {
    int taken = std::min(count, extents_.back().length);
    extents_.back().length -= taken;
    ends_.back() -= taken;
    count -= taken;
    if (extents_.back().length == 0) {
      extents_.pop_back();
      ends_.pop_back();
    }
  }
  return back;
}

void ExtentList::clear() {
  extents_.clear();
  ends_.clear();
}

}  // namespace espalier
