#include "cache/slots/window_slots.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {

WindowSlots::WindowSlots(int slots, int window_slots, WindowRule rule)
    : of_(static_cast<std::size_t>(slots), -1),
      last_use_(static_cast<std::size_t>(window_slots / SlotAllocator::group + 1)),
      pool_(window_slots),
      rule_(std::move(rule)) {}

bool WindowSlots::give(const ExtentList& slots, SlotCursor& cursor) {
  auto got = pool_.allocate(slots.length(), cursor);
  if (!got) return false;
  ExtentList given = got->hand_over();
  for (const Extent& extent : slots.extents()) {
    Slot* to = of_.data() + extent.start;
    const ExtentList part = given.take_front(extent.length);
    for (const Extent& e : part.extents())
      for (Slot slot = e.start; slot < e.end(); ++slot) *to++ = slot;
  }
  return true;
}

int WindowSlots::drop(const ExtentList& slots) {
  int dropped = 0;
  for (const Extent& extent : slots.extents()) dropped += drop(extent);
  return dropped;
}

int WindowSlots::drop(Extent slots) {
  ExtentList gone;
  for (Slot slot = slots.start; slot < slots.end(); ++slot) {
    Slot& its = of_[static_cast<std::size_t>(slot)];
    if (its < 0) continue;
    gone.append(Extent{its, 1});
    its = -1;
  }
  pool_.release(gone);
  return gone.length();
}

void WindowSlots::move(const ExtentList& from, const ExtentList& to) {
  for (int i = 0; i < from.length(); ++i) {
    Slot& source = of_[static_cast<std::size_t>(from.slot_at(i))];
    Slot& target = of_[static_cast<std::size_t>(to.slot_at(i))];
    if (target < 0) std::swap(source, target);
  }
}

int WindowSlots::last_lacking(Extent slots) const {
  const Slot* const first = of_.data() + slots.start;
  int end = slots.length;
  for (; end >= SlotAllocator::group; end -= SlotAllocator::group) {
    Slot any = 0;  // negative once one of them is
    for (int i = 1; i <= SlotAllocator::group; ++i) any |= first[end - i];
    if (any < 0) break;
  }
  while (end > 0 && first[end - 1] >= 0) --end;
  return end - 1;
}

int WindowSlots::count(Extent slots) const {
  const Slot* const first = of_.data() + slots.start;
  return static_cast<int>(std::count_if(first, first + slots.length, [](Slot slot) { return slot >= 0; }));
}

void WindowSlots::touch(Extent slots, std::uint64_t time) {
  for (Slot slot = slots.start; slot < slots.end(); ++slot)
    if (of(slot) >= 0) last_use_[static_cast<std::size_t>(of(slot) / SlotAllocator::group)] = time;
}

std::uint64_t WindowSlots::last_use(Extent slots) const {
  std::uint64_t last = 0;
  for (Slot slot = slots.start; slot < slots.end(); ++slot)
    if (of(slot) >= 0) last = std::max(last, last_use_[static_cast<std::size_t>(of(slot) / SlotAllocator::group)]);
  return last;
}

Result<> WindowSlots::check(const SlotAllocator& slots) const {
  ESP_CHECK(pool_.check());
  std::vector<bool> seen(static_cast<std::size_t>(pool_.capacity()));
  int given = 0;
  for (Slot slot = 0; slot < static_cast<Slot>(of_.size()); ++slot) {
    const Slot its = of(slot);
    if (its < 0) continue;
    if (its >= pool_.capacity() || seen[static_cast<std::size_t>(its)] || pool_.is_free(its))
      return internal_error(fmt::format("window slot {} of slot {} is free, or another's too", its, slot));
    if (slots.is_free(slot)) return internal_error(fmt::format("slot {} is free and has a window slot", slot));
    seen[static_cast<std::size_t>(its)] = true;
    ++given;
  }
  if (given == pool_.used_slots()) return success();
  return internal_error(fmt::format("{} window slots are in use, {} are known", pool_.used_slots(), given));
}

}  // namespace espalier
