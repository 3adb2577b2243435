#include "engine/memory/compaction.h"

#include <algorithm>

namespace espalier {
namespace {

constexpr int kBetter =
    4;  // times fewer extents, or it is not worth it; and so many times `short_extent` is an extent that stays
constexpr int kPlenty = 4;  // cached tokens that may be evicted, in lengths of what is moved

// Where the short extents begin: behind the extents that are long enough.
int first_short_extent(const ExtentList& slots, int long_enough) {
  int position = 0;
  for (const Extent& extent : slots.extents()) {
    if (extent.length < long_enough) break;
    position += extent.length;
  }
  return position;
}

int extents_of(const ExtentList& slots) {
  return static_cast<int>(slots.extents().size());
}

}  // namespace

void Compaction::step(std::span<const std::unique_ptr<Sequence>> running) {
  const auto one = std::ranges::find_if(running, [&](const auto& s) { return pays(*s) && gather(*s); });
  if (one == running.end()) return;
  for (const auto& s : running) s->held.look_up(tree_);
}

// Asked of every sequence in every step: a few comparisons for nearly all of them.
bool Compaction::pays(const Sequence& s) const {
  const int held = s.held.tree_slots().length(), extents = extents_of(s.held.tree_slots());
  if (held < limits_.least || extents < std::max(kBetter, 2 * s.extents_left)) return false;
  const int steps = s.remaining_output() / 2;  // who knows?
  return std::int64_t{extents} * std::min(limits_.short_extent, steps) > held;
}

bool Compaction::gather(Sequence& s) {
  const ExtentList& all = s.held.tree_slots();
  s.extents_left = extents_of(all);  // it is not tried again before there are twice as many
  const int begin = first_short_extent(all, kBetter * limits_.short_extent), count = all.length() - begin;
  const ExtentList scattered = all.slice(begin, count);
  if (count < limits_.least) return false;
  auto place = new_place(count, extents_of(scattered) / kBetter);
  if (!place) return false;
  runner_.copy(scattered, place->extents());
  s.extents_left -= extents_of(scattered) - extents_of(place->extents());
  metrics_.moved_tokens.add(static_cast<std::uint64_t>(count));
  return tree_.move(tree_.node(s.held.prefix()), all.length(), std::move(*place));
}

// Of cached prefixes that nobody uses some may go for it, if there are plenty: the old slots become room in their
// place.
std::optional<OwnedSlots> Compaction::new_place(int count, int most_extents) {
  auto place = free_place(count, most_extents);
  if (place || tree_.evictable_tokens() < kPlenty * count) return place;
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(tree_.evict(count, count)));
  return free_place(count, most_extents);
}

// Room that others have reserved stays theirs.
std::optional<OwnedSlots> Compaction::free_place(int count, int most_extents) {
  if (allocator_.free_slots() - allocator_.reserved_slots() < count) return std::nullopt;
  auto place = allocator_.allocate(count);
  if (place && extents_of(place->extents()) > most_extents) place.reset();
  return place;
}

}  // namespace espalier
