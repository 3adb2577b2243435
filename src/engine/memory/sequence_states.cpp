#include "engine/memory/sequence_states.h"

#include <algorithm>
#include <limits>

#include "engine/step/sequence.h"

namespace espalier {
namespace {

constexpr int kEvery = 512;        // tokens of a long prompt between snapshots, doubled until ...
constexpr int kMostPeriodic = 16;  // ... there are so few of them,
constexpr int kPeriodicShare = 8;  // and at most this part of all cells
constexpr int kBeforeEnd = 16;     // of a prompt: a template's last words differ once a turn is history
constexpr int kLeastGap = 16;      // tokens that a snapshot saves, or it is not worth its cell
constexpr std::size_t kMostWanted = 32;

}  // namespace

// --- admission ---

bool SequenceStates::writes_in_place(const Sequence& s) const {
  return s.state.now.sole() && s.draft.empty() && !s.text;
}

int SequenceStates::room(std::span<const std::unique_ptr<Sequence>> running,
                         std::span<const std::unique_ptr<Sequence>> admitted) const {
  if (!on()) return std::numeric_limits<int>::max();
  int wanted = 0;
  for (const auto& list : {running, admitted})
    wanted += static_cast<int>(std::ranges::count_if(list, [&](const auto& s) { return s && !writes_in_place(*s); }));
  return cells_.free() + tree_.evictable_states() - wanted;
}

void SequenceStates::begin(Sequence& s, Match& match) {
  s.state = {};
  s.state.now = std::move(match.state);
  if (!on() || !leaves_) return;
  const int text = s.known();
  want(s, text - 1);
  want(s, text - kBeforeEnd);
  if (match.held - match.length >= kLeastGap) want(s, match.held);
  const int most = std::clamp(cells_.capacity() / kPeriodicShare, 1, kMostPeriodic);
  int every = kEvery;
  while (text / every > most) every *= 2;
  for (int position = every; position < text - kLeastGap; position += every) want(s, position);
}

// Inside a picture nobody goes on: the state before it is of more use.
void SequenceStates::want(Sequence& s, int position) const {
  position = s.pictures.before_picture(position);
  if (position <= s.computed) return;
  const auto at = std::ranges::lower_bound(s.state.wanted, position);
  if (at == s.state.wanted.end() || *at != position) s.state.wanted.insert(at, position);
}

int SequenceStates::leaves_for_others(Sequence& s, int common) const {
  if (!on() || !leaves_) return common;
  auto& wanted = s.state.wanted;
  auto behind = std::ranges::upper_bound(wanted, common);
  const int before = behind == wanted.begin() ? 0 : *std::prev(behind);
  if (common - before < kLeastGap || wanted.size() >= kMostWanted) return before;
  want(s, common);
  return std::ranges::binary_search(wanted, common) ? common : before;
}

// --- a step ---

// A free cell, or that of the snapshot that was not used for longest.
StateCell SequenceStates::fresh() {
  StateCell cell = cells_.take();
  if (!cell && tree_.evict_states(1) > 0) cell = cells_.take();
  return cell;
}

bool SequenceStates::take(Sequence& s) {
  s.state.next.reset();
  s.state.marks.clear();
  if (!on() || writes_in_place(s)) return true;
  s.state.next = fresh();
  if (s.state.next) return true;
  // Where only the tree has the other share, the snapshot gives way and the state becomes its own.
  if (s.state.now && cells_.shares(s.state.now.index()) == 2) tree_.forget_state(s.state.now.index());
  return writes_in_place(s);
}

void SequenceStates::take_marks(Sequence& s, int count) {
  if (!on()) return;
  const int begin = s.computed, end = s.computed + count;
  const auto mark = [&](int position) {
    if (position <= begin || position >= end) return;
    StateCell cell = fresh();
    if (cell) s.state.marks.push_back({position, std::move(cell)});
  };
  for (const int position : s.state.wanted) mark(position);
  // A constraint's mask may come late: then the last row alone is computed again.
  const bool marked = !s.state.marks.empty() && s.state.marks.back().position == end - 1;
  if (s.text && s.draft.empty() && !marked) mark(end - 1);
  // Tokens that are read again because a guess was refused must not have to be once more when the next one is.
  const int known = s.known();
  if (s.draft.empty() || s.read_again == 0 || known <= begin || known >= end) return;
  if (!s.state.marks.empty() && s.state.marks.back().position >= known) return;
  if (StateCell cell = cells_.take()) s.state.marks.push_back({known, std::move(cell)});
}

int SequenceStates::settle(Sequence& s, int count, int held) {
  SequenceState& state = s.state;
  if (!on()) return held;
  if (held == count) {
    if (state.next) state.now = std::move(state.next);
    return held;
  }
  int computed = 0;
  while (!state.marks.empty() && state.marks.back().position > s.computed + held) state.marks.pop_back();
  if (!state.marks.empty()) {
    state.now = state.marks.back().cell.share();
    computed = state.marks.back().position - s.computed;
  }
  state.next.reset();
  return computed;
}

// Marks that nobody will want again (of a late mask) are given up here.
void SequenceStates::leave_snapshots(Sequence& s) {
  SequenceState& state = s.state;
  const PinnedPrefix& prefix = s.held.prefix();
  const auto leave = [&](int position, StateCell cell) {
    if (!prefix.valid() || position > prefix.length() || !std::ranges::binary_search(state.wanted, position)) return;
    if (cell && !tree_.holds_state(cell.index())) tree_.leave_state(prefix, position, std::move(cell));
  };
  if (leaves_)
    for (auto& [position, cell] : state.marks) leave(position, std::move(cell));
  if (leaves_) leave(s.computed, state.now.share());
  state.marks.clear();
  std::erase_if(state.wanted, [&](int position) { return position <= s.computed; });
}

void SequenceStates::release(Sequence& s) {
  const PinnedPrefix& prefix = s.held.prefix();
  const bool stands = prefix.valid() && prefix.length() > 0 && prefix.length() == s.computed;
  if (leaves_ && stands && s.state.now && !tree_.holds_state(s.state.now.index()))
    tree_.leave_state(prefix, s.computed, std::move(s.state.now));
  s.state = {};
}

}  // namespace espalier
