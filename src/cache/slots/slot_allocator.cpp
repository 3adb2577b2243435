#include "cache/slots/slot_allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/slots/window_slots.h"

namespace espalier {

OwnedSlots::OwnedSlots(OwnedSlots&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)), extents_(std::move(other.extents_)) {
  other.extents_.clear();
}

OwnedSlots& OwnedSlots::operator=(OwnedSlots&& other) noexcept {
  if (this == &other) return *this;
  reset();
  allocator_ = std::exchange(other.allocator_, nullptr);
  extents_ = std::move(other.extents_);
  other.extents_.clear();
  return *this;
}

void OwnedSlots::append(OwnedSlots&& more) {
  if (more.empty() || this == &more) return;
  if (allocator_ == nullptr) allocator_ = more.allocator_;
  if (allocator_ != more.allocator_) return;
  extents_.append(more.extents_);
  more.extents_.clear();
}

OwnedSlots OwnedSlots::take_front(int count) {
  return {allocator_, extents_.take_front(count)};
}
OwnedSlots OwnedSlots::take_back(int count) {
  return {allocator_, extents_.take_back(count)};
}

void OwnedSlots::reset() {
  if (allocator_ == nullptr) return;
  SlotAllocator* allocator = allocator_;
  allocator->release(hand_over());
}

ExtentList OwnedSlots::hand_over() {
  if (allocator_ != nullptr) allocator_->held_ -= extents_.length();
  allocator_ = nullptr;
  ExtentList slots = std::move(extents_);
  extents_.clear();
  return slots;
}

SlotCursor& SlotCursor::operator=(SlotCursor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  swap(other);
  return *this;
}

void SlotCursor::swap(SlotCursor& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(id_, other.id_);
  std::swap(next_, other.next_);
  std::swap(position_, other.position_);
  std::swap(reserve_, other.reserve_);
}

void SlotCursor::follow(Slot last, int length) {
  Slot next = last < 0 ? -1 : last + 1;
  if (next != next_ && allocator_ != nullptr) allocator_->unreserve(*this);
  next_ = next;
  position_ = std::max(length, 0);
}

void SlotCursor::reset() {
  if (allocator_ != nullptr) allocator_->unreserve(*this);
  allocator_ = nullptr;
  id_ = 0;
  next_ = -1;
  position_ = reserve_ = 0;
}

SlotAllocator::SlotAllocator(int capacity, WindowSlots* windows)
    : windows_(windows), capacity_(std::clamp(capacity, 0, most_slots)) {
  if (capacity_ > 0) add_run(0, capacity_, 0);
}

void SlotAllocator::add_run(Slot start, int length, std::uint64_t owner) {
  runs_.emplace(start, FreeRun{length, owner});
  index_of(owner).emplace(length, start);
  free_ += length;
  if (owner != 0) reserved_ += length;
}

void SlotAllocator::remove_run(Runs::const_iterator run) {
  auto [length, owner] = run->second;
  index_of(owner).erase({length, run->first});
  free_ -= length;
  if (owner != 0) reserved_ -= length;
  runs_.erase(run);
}

void SlotAllocator::take_from(Runs::const_iterator run, Slot start, int length) {
  reached_ = std::max(reached_, start + length);
  Slot begin = run->first;
  auto [whole, owner] = run->second;
  Slot end = begin + whole;
  if (begin == start && length < whole) {
    // A sequence growing into its reserve comes here for every token: move the nodes instead of making new ones.
    BySize& index = index_of(owner);
    auto key = index.extract({whole, begin});
    key.value() = {whole - length, begin + length};
    index.insert(std::move(key));
    auto node = runs_.extract(run);
    node.key() = begin + length;
    node.mapped().length = whole - length;
    runs_.insert(std::move(node));
    free_ -= length;
    if (owner != 0) reserved_ -= length;
    return;
  }
  remove_run(run);
  if (start > begin) add_run(begin, start - begin, owner);
  if (start + length < end) add_run(start + length, end - start - length, owner);
}

void SlotAllocator::add_plain(Slot start, int length) {
  auto next = runs_.lower_bound(start);
  if (next != runs_.end() && next->first == start + length && next->second.owner == 0) {
    length += next->second.length;
    auto merged = next++;
    remove_run(merged);
  }
  if (next != runs_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second.length == start && previous->second.owner == 0) {
      start = previous->first;
      length += previous->second.length;
      remove_run(previous);
    }
  }
  add_run(start, length, 0);
}

bool SlotAllocator::release(Extent slots) {
  if (slots.length <= 0 || slots.start < 0 || slots.length > capacity_ - slots.start) return false;
  auto next = runs_.lower_bound(slots.start);
  if (next != runs_.end() && next->first < slots.end()) return false;
  if (next != runs_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second.length > slots.start) return false;
  }
  add_plain(slots.start, slots.length);
  if (windows_ != nullptr) windows_->drop(slots);
  return true;
}

void SlotAllocator::release(const ExtentList& slots) {
  for (Extent extent : slots.extents()) {
    if (!release(extent)) ++faults_;
  }
}

bool SlotAllocator::is_free(Slot slot) const {
  auto next = runs_.upper_bound(slot);
  if (next == runs_.begin()) return false;
  auto run = std::prev(next);
  return slot < run->first + run->second.length;
}

std::optional<OwnedSlots> SlotAllocator::allocate(int count) {
  SlotCursor nowhere;
  nowhere.reserve_ = -1;  // nothing grows behind these slots
  return allocate(count, nowhere);
}

std::optional<OwnedSlots> SlotAllocator::allocate(int count, SlotCursor& cursor) {
  if (count < 0 || count > free_) return std::nullopt;
  bool grows = cursor.reserve_ >= 0;
  if (cursor.allocator_ != this && grows) {
    Slot next = cursor.next_;
    int position = cursor.position_;
    cursor.reset();
    cursor.allocator_ = this;
    cursor.id_ = ++last_id_;
    cursor.next_ = next;
    cursor.position_ = position;
  }
  ExtentList slots;
  bool moved = false;
  while (slots.length() < count) {
    int wanted = count - slots.length();
    Extent got = grow_in_place(wanted, cursor);
    if (got.length == 0) {
      if (grows && !std::exchange(moved, true)) {
        cursor.reserve_ = cursor.reserve_ == 0 ? first_reserve : std::min(2 * cursor.reserve_, last_reserve);
      }
      got = new_place(wanted, cursor.position_, std::max(cursor.reserve_, 0));
    }
    slots.append(got);
    cursor.next_ = got.end();
    cursor.position_ += got.length;
  }
  if (grows) reserve_after(cursor);
  held_ += slots.length();
  return OwnedSlots(this, std::move(slots));
}

// The free run with the slot behind the cursor's last one. Slots that were freed in front of that may have been merged
// with those behind it.
SlotAllocator::Runs::const_iterator SlotAllocator::run_at(const SlotCursor& cursor) const {
  if (cursor.next_ < 0) return runs_.end();
  auto run = runs_.upper_bound(cursor.next_);
  if (run == runs_.begin()) return runs_.end();
  --run;
  if (cursor.next_ >= run->first + run->second.length) return runs_.end();
  return run->second.owner == 0 || run->second.owner == cursor.id_ ? run : runs_.end();
}

int SlotAllocator::room_in_place(const SlotCursor& cursor) const {
  const auto run = cursor.allocator_ == this ? run_at(cursor) : runs_.end();
  return run == runs_.end() ? 0 : run->first + run->second.length - cursor.next_;
}

// The part of `count` slots that lies free right behind the cursor; taken. Empty when there is none.
Extent SlotAllocator::grow_in_place(int count, const SlotCursor& cursor) {
  const auto run = run_at(cursor);
  if (run == runs_.end()) return {};
  Extent got{cursor.next_, std::min(count, run->first + run->second.length - cursor.next_)};
  take_from(run, got.start, got.length);
  return got;
}

// A new place for up to `count` slots, best first: room for the reserve too, room for all, the longest plain run, and
// when plain runs are down to short extents, half of the longest reserve of another sequence.
// Requires: something is free.
Extent SlotAllocator::new_place(int count, int position, int reserve) {
  for (int room : {count + reserve, count + group, count}) {
    // group - 1 more, so that the start can be moved to a place that suits the position.
    auto fit = plain_.lower_bound({room + group - 1, 0});
    if (fit == plain_.end()) fit = plain_.lower_bound({room, 0});
    if (fit != plain_.end()) return place_in(runs_.find(fit->second), count, position);
  }
  auto longest = [](const BySize& index) { return index.empty() ? 0 : index.rbegin()->first; };
  while (plain_.empty() || (longest(plain_) < std::min(count, group) && longest(plain_) < longest(kept_) / 2)) steal();
  return place_in(runs_.find(plain_.rbegin()->second), count, position);
}

Extent SlotAllocator::place_in(Runs::const_iterator run, int count, int position) {
  int length = run->second.length;
  int skipped = ((position - run->first) % group + group) % group;
  if (skipped + count > length) skipped = 0;
  Extent got{run->first + skipped, std::min(count, length - skipped)};
  take_from(run, got.start, got.length);
  return got;
}

// Turns the farther half of the longest reserve into plain slots.
void SlotAllocator::steal() {
  auto [length, start] = *kept_.rbegin();
  std::uint64_t owner = runs_.find(start)->second.owner;
  int left = length / 2;
  remove_run(runs_.find(start));
  if (left > 0) add_run(start, left, owner);
  add_plain(start + left, length - left);
}

void SlotAllocator::reserve_after(SlotCursor& cursor) {
  auto run = runs_.find(cursor.next_);
  if (run == runs_.end() || run->second.owner != 0) return;
  int available = run->second.length;
  if (cursor.reserve_ == 0) cursor.reserve_ = first_reserve;  // it grew in place from the start
  // A reserve ends with its group, so that whatever comes behind it starts with one.
  int wanted = cursor.reserve_;
  wanted += (group - (cursor.next_ + wanted) % group) % group;
  int length = std::min(available, wanted);
  remove_run(run);
  add_run(cursor.next_, length, cursor.id_);
  if (length < available) add_run(cursor.next_ + length, available - length, 0);
}

void SlotAllocator::unreserve(const SlotCursor& cursor) {
  auto run = runs_.find(cursor.next_);
  if (run == runs_.end() || run->second.owner == 0 || run->second.owner != cursor.id_) return;
  int length = run->second.length;
  remove_run(run);
  add_plain(cursor.next_, length);
}

Result<> SlotAllocator::check() const {
  Slot behind = 0;
  bool plain_before = false;
  int free = 0;
  int reserved = 0;
  for (const auto& [start, run] : runs_) {
    if (run.length <= 0 || start < behind || run.length > capacity_ - start) {
      return internal_error(
          fmt::format("free run [{}, +{}) overlaps or leaves the pool of {}", start, run.length, capacity_));
    }
    if (plain_before && run.owner == 0 && start == behind) {
      return internal_error(fmt::format("free runs touch at slot {} and are not merged", start));
    }
    const BySize& index = run.owner == 0 ? plain_ : kept_;
    if (!index.contains({run.length, start}))
      return internal_error(fmt::format("free run at {} is not indexed", start));
    behind = start + run.length;
    plain_before = run.owner == 0;
    free += run.length;
    if (run.owner != 0) reserved += run.length;
  }
  if (plain_.size() + kept_.size() != runs_.size())
    return internal_error("the size index knows runs that do not exist");
  if (free != free_ || reserved != reserved_) {
    return internal_error(
        fmt::format("{} slots are free and {} reserved, counted as {} and {}", free, reserved, free_, reserved_));
  }
  if (held_ < 0 || held_ > used_slots())
    return internal_error(fmt::format("{} slots are held of {} used", held_, used_slots()));
  return success();
}

}  // namespace espalier
