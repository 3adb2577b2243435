#include "engine/memory/held_tokens.h"

namespace espalier {

Slot HeldTokens::slot_at(int position) const {
  const int behind = position - shared_.length();
  return behind < 0 ? shared_.slot_at(position) : own_.extents().slot_at(behind);
}

int HeldTokens::extents() const {
  int count = 0;
  for_each_extent([&](const Extent&) { ++count; });
  return count;
}

void HeldTokens::begin(PinnedPrefix prefix, ExtentList slots) {
  prefix_ = std::move(prefix);
  shared_ = std::move(slots);
  follow(shared_.length());
}

bool HeldTokens::grow(SlotAllocator& allocator, int count) {
  auto slots = allocator.allocate(count, cursor_);
  if (!slots) return false;
  own_.append(std::move(*slots));
  return true;
}

void HeldTokens::keep_first(int length) {
  const int unused = this->length() - length;
  if (unused <= 0) return;
  own_.take_back(unused).reset();
  follow(length);
}

void HeldTokens::give_to(RadixTree& tree, std::span<const TokenId> tokens, int end) {
  const int count = end - shared_.length();
  if (!prefix_.valid() || count <= 0) return;
  const auto given = tokens.subspan(static_cast<std::size_t>(shared_.length()), static_cast<std::size_t>(count));
  Insertion inserted = tree.extend(prefix_, given, own_.take_front(count));
  shared_.append(inserted.extents);
  follow(length());
}

void HeldTokens::look_up(const RadixTree& tree) {
  if (!prefix_.valid()) return;
  shared_ = tree.extents(prefix_);
  follow(length());
}

void HeldTokens::follow(int length) {
  cursor_.follow(own_.empty() ? shared_.last_slot() : own_.extents().last_slot(), length);
}

}  // namespace espalier
