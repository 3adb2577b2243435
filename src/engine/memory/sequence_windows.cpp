#include "engine/memory/sequence_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/step/sequence.h"

namespace espalier {
namespace {

// Tokens before the end of a pinned prefix from which a text may go on: its last one is computed again for its logits,
// and a template may write the words behind a turn otherwise.
constexpr int kBeforePinEnd = 16;
constexpr int kNotYetBack = 64;  // slots of a sequence that its window has passed and that have not gone back yet

}  // namespace

// Of what the tree holds: what running sequences still read, and where a pinned prefix is gone on from.
SequenceWindows::Uses SequenceWindows::in_use(Sequences running, Sequences admitted) const {
  Uses uses;
  for (const Sequences& list : {running, admitted})
    for (const auto& s : list)
      if (s->held.in_tree()) uses.push_back({&s->held.prefix(), slots_->first_read(s->computed)});
  pins_.for_each_prefix([&](const PinnedPrefix& prefix) {
    const int from = std::max(TreeWindows(tree_).last_readable(prefix) - kBeforePinEnd, 0);
    uses.push_back({&prefix, slots_->first_read(from)});
  });
  return uses;
}

// Of a sequence that now reads from `first` on, at most at one time.
int SequenceWindows::wanted(const Sequence& s, int first) const {
  return std::min(s.known() - first + further_(s), slots_->most_read() + kNotYetBack);
}

int SequenceWindows::room(Sequences running, Sequences admitted) const {
  return slots_ == nullptr ? std::numeric_limits<int>::max() : room(in_use(running, admitted), running, admitted);
}

int SequenceWindows::room(const Uses& in_use, Sequences running, Sequences admitted) const {
  std::int64_t room = slots_->pool().capacity() - chunk_ - TreeWindows(tree_).in_use(in_use);
  for (const Sequences& list : {running, admitted})
    for (const auto& s : list) {
      const int first = slots_->first_read(s->computed), in_tree = std::max(s->held.prefix().length() - first, 0);
      room -= std::max(wanted(*s, first) - in_tree, 0);
    }
  return static_cast<int>(std::max<std::int64_t>(room, std::numeric_limits<int>::min()));
}

bool SequenceWindows::fits(const Sequence& s, const PinnedPrefix& prefix, Sequences running, Sequences admitted) const {
  if (slots_ == nullptr) return true;
  const int computed = prefix.valid() ? prefix.length() : s.peeked.last.length;
  const int first = slots_->first_read(computed);
  Uses uses = in_use(running, admitted);
  if (prefix.valid()) uses.push_back({&prefix, first});
  return wanted(s, first) - (computed - first) <= room(uses, running, admitted);
}

void SequenceWindows::make_place(int count, Sequences running) {
  if (slots_ == nullptr || slots_->pool().free_slots() >= count) return;
  Uses uses = in_use(running, {});
  if (others_) others_(uses);
  TreeWindows::evict(tree_, count - slots_->pool().free_slots(), uses);
}

Result<> SequenceWindows::check(Sequences running) const {
  if (slots_ == nullptr) return success();
  for (const auto& s : running)
    for (int position = slots_->first_read(s->computed); position < s->computed; ++position)
      if (slots_->of(s->held.slot_at(position)) < 0)
        return internal_error(fmt::format("sequence {} has computed {} tokens and lacks the window slot of position {}",
                                          s->request->id(), s->computed, position));
  return success();
}

}  // namespace espalier
