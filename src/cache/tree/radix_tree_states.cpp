// Snapshots of recurrent states in the radix tree: where they stand, which goes first, and what must hold of them.
//
// They stand in runs, by position; a split cuts nodes, not runs, so it leaves them where they are.
#include <fmt/format.h>

#include <algorithm>

#include "cache/tree/radix_tree.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostCountedUses = 64;

}  // namespace

// The last snapshot at or before the end of the walk, on its path.
RadixTree::StateAt RadixTree::last_state(Walk at) const {
  for (std::uint32_t n = at.node; n != none && !nodes_[n].is_root(); n = nodes_[n].parent) {
    const auto& states = runs_[nodes_[n].run].states;
    const int end = std::min(at.length, nodes_[n].end);
    const auto behind =
        std::partition_point(states.begin(), states.end(), [&](StateAt s) { return s.position <= end; });
    if (behind != states.begin() && std::prev(behind)->position > nodes_[n].begin) return *std::prev(behind);
  }
  return {};
}

// The last one at which the key and the limit allow a match to end.
RadixTree::StateAt RadixTree::last_fitting_state(Walk at, const CacheKey& key, MatchLimit limit) const {
  for (;;) {
    const StateAt state = last_state(at);
    const int fitting = shorten(state.position, key, limit);
    if (fitting == state.position) return state;
    at = climb(at, fitting);
  }
}

void RadixTree::leave_state(const PinnedPrefix& prefix, int position, StateCell state) {
  if (cells_ == nullptr || prefix.tree_ != this || !state || position <= 0 || position > prefix.length_ ||
      holds_state(state.index())) {
    ++counters_.faults;
    return;
  }
  const std::uint32_t r = nodes_[climb({prefix.node_, prefix.length_}, position).node].run;
  auto& states = runs_[r].states;
  const auto at = std::partition_point(states.begin(), states.end(), [&](StateAt s) { return s.position < position; });
  if (at != states.end() && at->position == position) {
    use_state(at->cell);
    return;
  }
  const int cell = state.index();
  states.insert(at, {position, cell});
  snapshots_[static_cast<std::size_t>(cell)] = {.share = std::move(state), .run = r, .position = position, .uses = 0};
  use_state(cell);
  ++counters_.left_states;
  ++version_;
}

int RadixTree::evict_states(int wanted) {
  int freed = 0;
  for (; freed < wanted; ++freed) {
    const auto sole = [&](const SnapshotRank& r) { return snapshots_[static_cast<std::size_t>(r.cell)].share.sole(); };
    const auto lowest = std::find_if(snapshot_ranks_.begin(), snapshot_ranks_.end(), sole);
    if (lowest == snapshot_ranks_.end()) break;
    snapshot_age_ = std::max(snapshot_age_, lowest->value);
    drop_state(lowest->cell);
    ++counters_.evicted_states;
  }
  return freed;
}

// Its rank is taken anew: what it saves may be more than it was, since others went. The first to use one makes it
// less worth: a conversation goes on from each of its snapshots once, and never again; where many begin, more come.
void RadixTree::use_state(int cell) {
  Snapshot& s = snapshots_[static_cast<std::size_t>(cell)];
  snapshot_ranks_.erase(s.rank);
  const std::uint32_t before = std::exchange(s.uses, std::min(s.uses + 1, kMostCountedUses));
  const auto saves = static_cast<std::uint64_t>(s.position - last_state({node_of(s), s.position - 1}).position);
  s.rank.value =
      before == 1 ? std::min(s.rank.value, snapshot_age_ + saves / 2) : snapshot_age_ + std::max(before, 1u) * saves;
  s.rank.last_use = ++clock_;
  s.rank.cell = cell;
  snapshot_ranks_.insert(s.rank);
}

int RadixTree::evictable_states() const {
  return static_cast<int>(
      std::count_if(snapshots_.begin(), snapshots_.end(), [](const Snapshot& s) { return s.share.sole(); }));
}

void RadixTree::forget_state(int cell) {
  if (holds_state(cell)) drop_state(cell);
}

// The nodes of a run follow each other up to its last one.
std::uint32_t RadixTree::node_of(const Snapshot& snapshot) const {
  std::uint32_t n = runs_[snapshot.run].last;
  while (nodes_[n].begin >= snapshot.position) n = nodes_[n].parent;
  return n;
}

void RadixTree::drop_state(int cell) {
  Snapshot& snapshot = snapshots_[static_cast<std::size_t>(cell)];
  if (observer_ != nullptr) observer_->evicting_state(*this, handle(node_of(snapshot)), snapshot.position, cell);
  std::erase_if(runs_[snapshot.run].states, [&](StateAt s) { return s.cell == cell; });
  snapshot_ranks_.erase(snapshot.rank);
  snapshot = {};
  ++version_;
}

// Requires: the run still has its tokens.
void RadixTree::drop_states_behind(std::uint32_t r, int position) {
  while (!runs_[r].states.empty() && runs_[r].states.back().position > position) {
    drop_state(runs_[r].states.back().cell);
    ++counters_.evicted_states;
  }
}

std::vector<RadixTree::SnapshotView> RadixTree::states() const {
  std::vector<SnapshotView> all;
  for (std::size_t cell = 0; cell < snapshots_.size(); ++cell) {
    const Snapshot& s = snapshots_[cell];
    if (s.share) all.push_back({handle(node_of(s)), s.position, static_cast<int>(cell), s.rank.last_use});
  }
  return all;
}

// Every snapshot stands once, inside the tokens of its run, and its cell is nobody's else.
Result<> RadixTree::check_states() const {
  if (cells_ != nullptr) ESP_CHECK(cells_->check());
  std::size_t standing = 0;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const Run& run = runs_[r];
    if (run.nodes > 0 &&
        (nodes_[run.last].run != r || nodes_[run.last].end != run.begin + static_cast<int>(run.tokens.size())))
      return internal_error(fmt::format("run {} does not end with its last node", r));
    for (std::size_t i = 0; i < run.states.size(); ++i, ++standing) {
      const StateAt& s = run.states[i];
      if (s.position <= run.begin || s.position > run.begin + static_cast<int>(run.tokens.size()) ||
          (i > 0 && run.states[i - 1].position >= s.position))
        return internal_error(fmt::format("a snapshot at {} stands outside its run, or out of order", s.position));
      const Snapshot& known = snapshots_[static_cast<std::size_t>(s.cell)];
      if (!known.share || known.share.index() != s.cell || known.run != r || known.position != s.position ||
          !snapshot_ranks_.contains(known.rank))
        return internal_error(fmt::format("the snapshot at {} is not the one of its cell {}", s.position, s.cell));
    }
  }
  const auto held =
      std::count_if(snapshots_.begin(), snapshots_.end(), [](const Snapshot& s) { return bool(s.share); });
  if (static_cast<std::size_t>(held) != standing || snapshot_ranks_.size() != standing)
    return internal_error(
        fmt::format("{} snapshots are held, {} stand in runs, {} have a rank", held, standing, snapshot_ranks_.size()));
  return success();
}

}  // namespace espalier
