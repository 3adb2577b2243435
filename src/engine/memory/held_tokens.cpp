#include "engine/memory/held_tokens.h"

namespace espalier {
namespace {

constexpr int kBackTogether = 32;  // window slots that go back together, so that extents stay long
constexpr int kBehindTurn =
    16;  // tokens before its end from which a text may be gone on: a template's words, a part of a block

}  // namespace

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
  if (windows_ == nullptr && allocator.windows() != nullptr) {
    windows_ = allocator.windows();
    follow(length());
  }
  if (windows_ != nullptr && windows_->pool().free_slots() < count) return false;
  auto slots = allocator.allocate(count, cursor_);
  if (!slots) return false;
  if (windows_ != nullptr) windows_->give(slots->extents(), window_cursor_);
  own_.append(std::move(*slots));
  return true;
}

void HeldTokens::keep_first(int length) {
  const int unused = this->length() - length;
  if (unused <= 0) return;
  own_.take_back(unused).reset();
  follow(length);
}

void HeldTokens::forget_behind_window(int tokens) {
  if (windows_ == nullptr) return;
  const int from = std::max(window_from_, shared_.length());
  const int to = std::min(windows_->first_read(std::max(tokens - kBehindTurn, 0)), length());
  if (to - from < kBackTogether) return;
  windows_->drop(own_.extents().slice(from - shared_.length(), to - from));
  window_from_ = to;
}

void HeldTokens::give_to(RadixTree& tree, std::span<const TokenId> tokens, int end, std::span<const TokenSpan> whole) {
  const int count = end - shared_.length();
  if (!prefix_.valid() || count <= 0) return;
  const auto given = tokens.subspan(static_cast<std::size_t>(shared_.length()), static_cast<std::size_t>(count));
  Insertion inserted = tree.extend(prefix_, given, own_.take_front(count), whole);
  shared_.append(inserted.extents);
  follow(length());
}

void HeldTokens::look_up(const RadixTree& tree) {
  if (!prefix_.valid()) return;
  shared_ = tree.extents(prefix_);
  follow(length());
}

void HeldTokens::follow(int length) {
  const Slot last = own_.empty() ? shared_.last_slot() : own_.extents().last_slot();
  cursor_.follow(last, length);
  if (windows_ != nullptr) window_cursor_.follow(last < 0 ? -1 : windows_->of(last), length);
}

}  // namespace espalier
