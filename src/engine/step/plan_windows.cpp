// EngineCore: slots of what is read through a window.
#include <algorithm>
#include <limits>

#include "engine/step/engine_core.h"

namespace espalier {
namespace {

// Tokens before the end of a pinned prefix from which a text may go on: its last one is computed again for its logits,
// and a template may write the words behind a turn otherwise.
constexpr int kBeforePinEnd = 16;
constexpr int kNotYetBack = 64;  // slots of a sequence that its window has passed and that have not gone back yet

}  // namespace

// Of what the tree holds: what running sequences still read, and where a pinned prefix is gone on from.
std::vector<WindowUse> EngineCore::windows_in_use() const {
  std::vector<WindowUse> uses;
  if (!windows_) return uses;
  for (const auto* list : {&running_, &admitted_now_})
    for (const auto& s : *list)
      if (s->held.in_tree()) uses.push_back({&s->held.prefix(), windows_->first_read(s->computed)});
  pins_.for_each_prefix([&](const PinnedPrefix& prefix) {
    const int from = std::max(tree_.last_readable(prefix) - kBeforePinEnd, 0);
    uses.push_back({&prefix, windows_->first_read(from)});
  });
  return uses;
}

// Window slots of a sequence that reaches so many tokens behind the first that it reads now.
int EngineCore::windows_for(int tokens) const {
  return std::min(tokens, windows_->most_read() + kNotYetBack);
}

// Window slots that are left when the running sequences have what they will want. What several of them share counts
// once as long as they share it.
int EngineCore::window_room(std::vector<WindowUse> in_use) const {
  if (!windows_) return std::numeric_limits<int>::max();
  std::int64_t room = windows_->pool().capacity() - options_.prefill_chunk - tree_.windows_in_use(in_use);
  for (const auto* list : {&running_, &admitted_now_})
    for (const auto& s : *list) {
      const int first = windows_->first_read(s->computed), in_tree = std::max(s->held.prefix().length() - first, 0);
      room -= std::max(windows_for(s->known() - first + expected_further(*s)) - in_tree, 0);
    }
  return static_cast<int>(std::max<std::int64_t>(room, std::numeric_limits<int>::min()));
}

// Whether there is room beside the running sequences for one more, on `prefix`; not matched yet: on what may be there.
bool EngineCore::windows_fit(const Sequence& s, const PinnedPrefix& prefix) const {
  if (!windows_) return true;
  const int computed = prefix.valid() ? prefix.length() : s.peeked.last.length;
  const int first = windows_->first_read(computed);
  std::vector<WindowUse> uses = windows_in_use();
  if (prefix.valid()) uses.push_back({&prefix, first});
  return windows_for(s.known() - first + expected_further(s)) - (computed - first) <= window_room(std::move(uses));
}

void EngineCore::make_window_place(int count) {
  if (!windows_ || windows_->pool().free_slots() >= count) return;
  tree_.evict_windows(count - windows_->pool().free_slots(), windows_in_use());
}

}  // namespace espalier
