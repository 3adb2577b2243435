#include "cache/tree/tree_snapshots.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/tree/radix_tree.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostCountedUses = 64;

}  // namespace

TreeSnapshots::TreeSnapshots(TreeNodes& tree, const RadixTree& owner, StateCells* cells)
    : tree_(tree),
      owner_(owner),
      cells_(cells),
      snapshots_(cells == nullptr ? 0 : static_cast<std::size_t>(cells->capacity())) {}

TreeNodes::StateAt TreeSnapshots::last(TreeNodes::Walk at) const {
  for (std::uint32_t n = at.node; n != TreeNodes::none && !tree_.nodes_[n].is_root(); n = tree_.nodes_[n].parent) {
    const auto& states = tree_.runs_[tree_.nodes_[n].run].states;
    const int end = std::min(at.length, tree_.nodes_[n].end);
    const auto behind =
        std::partition_point(states.begin(), states.end(), [&](TreeNodes::StateAt s) { return s.position <= end; });
    if (behind != states.begin() && std::prev(behind)->position > tree_.nodes_[n].begin) return *std::prev(behind);
  }
  return {};
}

void TreeSnapshots::leave(std::uint32_t r, int position, StateCell state) {
  auto& states = tree_.runs_[r].states;
  const auto at =
      std::partition_point(states.begin(), states.end(), [&](TreeNodes::StateAt s) { return s.position < position; });
  if (at != states.end() && at->position == position) {
    use(at->cell);
    return;
  }
  const int cell = state.index();
  states.insert(at, {position, cell});
  snapshots_[static_cast<std::size_t>(cell)] = {.share = std::move(state), .run = r, .position = position, .uses = 0};
  use(cell);
  ++left_;
  ++tree_.version_;
}

int TreeSnapshots::evict(int wanted) {
  int freed = 0;
  for (; freed < wanted; ++freed) {
    const auto sole = [&](const Rank& r) { return snapshots_[static_cast<std::size_t>(r.cell)].share.sole(); };
    const auto lowest = std::find_if(ranks_.begin(), ranks_.end(), sole);
    if (lowest == ranks_.end()) break;
    age_ = std::max(age_, lowest->value);
    drop(lowest->cell);
    ++evicted_;
  }
  return freed;
}

void TreeSnapshots::use(int cell) {
  Snapshot& s = snapshots_[static_cast<std::size_t>(cell)];
  ranks_.erase(s.rank);
  const std::uint32_t before = std::exchange(s.uses, std::min(s.uses + 1, kMostCountedUses));
  const auto saves = static_cast<std::uint64_t>(s.position - last({node_of(s), s.position - 1}).position);
  s.rank.value = before == 1 ? std::min(s.rank.value, age_ + saves / 2) : age_ + std::max(before, 1u) * saves;
  s.rank.last_use = ++tree_.clock_;
  s.rank.cell = cell;
  ranks_.insert(s.rank);
}

int TreeSnapshots::evictable() const {
  return static_cast<int>(
      std::count_if(snapshots_.begin(), snapshots_.end(), [](const Snapshot& s) { return s.share.sole(); }));
}

void TreeSnapshots::forget(int cell) {
  if (holds(cell)) drop(cell);
}

// The nodes of a run follow each other up to its last one.
std::uint32_t TreeSnapshots::node_of(const Snapshot& snapshot) const {
  std::uint32_t n = tree_.runs_[snapshot.run].last;
  while (tree_.nodes_[n].begin >= snapshot.position) n = tree_.nodes_[n].parent;
  return n;
}

void TreeSnapshots::drop(int cell) {
  Snapshot& snapshot = snapshots_[static_cast<std::size_t>(cell)];
  if (observer_ != nullptr) observer_->evicting_state(owner_, tree_.handle(node_of(snapshot)), snapshot.position, cell);
  std::erase_if(tree_.runs_[snapshot.run].states, [&](TreeNodes::StateAt s) { return s.cell == cell; });
  ranks_.erase(snapshot.rank);
  snapshot = {};
  ++tree_.version_;
}

void TreeSnapshots::drop_behind(std::uint32_t r, int position) {
  while (!tree_.runs_[r].states.empty() && tree_.runs_[r].states.back().position > position) {
    drop(tree_.runs_[r].states.back().cell);
    ++evicted_;
  }
}

std::vector<SnapshotView> TreeSnapshots::list() const {
  std::vector<SnapshotView> all;
  for (std::size_t cell = 0; cell < snapshots_.size(); ++cell) {
    const Snapshot& s = snapshots_[cell];
    if (s.share) all.push_back({tree_.handle(node_of(s)), s.position, static_cast<int>(cell), s.rank.last_use});
  }
  return all;
}

// Every snapshot stands once, inside the tokens of its run, and its cell is nobody's else.
Result<> TreeSnapshots::check() const {
  if (cells_ != nullptr) ESP_CHECK(cells_->check());
  std::size_t standing = 0;
  for (std::size_t r = 0; r < tree_.runs_.size(); ++r) {
    const TreeNodes::Run& run = tree_.runs_[r];
    if (run.nodes > 0 && (tree_.nodes_[run.last].run != r ||
                          tree_.nodes_[run.last].end != run.begin + static_cast<int>(run.tokens.size())))
      return internal_error(fmt::format("run {} does not end with its last node", r));
    for (std::size_t i = 0; i < run.states.size(); ++i, ++standing) {
      const TreeNodes::StateAt& s = run.states[i];
      if (s.position <= run.begin || s.position > run.begin + static_cast<int>(run.tokens.size()) ||
          (i > 0 && run.states[i - 1].position >= s.position))
        return internal_error(fmt::format("a snapshot at {} stands outside its run, or out of order", s.position));
      const Snapshot& known = snapshots_[static_cast<std::size_t>(s.cell)];
      if (!known.share || known.share.index() != s.cell || known.run != r || known.position != s.position ||
          !ranks_.contains(known.rank))
        return internal_error(fmt::format("the snapshot at {} is not the one of its cell {}", s.position, s.cell));
    }
  }
  const auto held =
      std::count_if(snapshots_.begin(), snapshots_.end(), [](const Snapshot& s) { return bool(s.share); });
  if (static_cast<std::size_t>(held) != standing || ranks_.size() != standing)
    return internal_error(
        fmt::format("{} snapshots are held, {} stand in runs, {} have a rank", held, standing, ranks_.size()));
  return success();
}

int TreeSnapshots::count() const {
  return static_cast<int>(std::count_if(snapshots_.begin(), snapshots_.end(),
                                        [](const Snapshot& s) { return static_cast<bool>(s.share); }));
}

}  // namespace espalier
