#include "cache/tree/tree_windows.h"

#include <algorithm>

namespace espalier {
namespace {

constexpr int kPiece = 128;        // positions that go together, at multiples of so many
constexpr int kBehindTurn = 16;    // tokens that a template writes behind a turn, and otherwise once it is history
constexpr int kLeastPeriod = 512;  // tokens between the windows that stay within a long run,
constexpr int kWindowsApart = 4;   // at least so many windows,
constexpr int kMostWithin = 16;    // and of one run at most so many
constexpr int kFreedAtOnce =
    64;  // part of all window slots that is freed at least: what is to go is looked for in the whole tree

}  // namespace

// The number of the last position of [begin, end), all in the node, that has no window slot; -1: all have one.
int TreeWindows::last_lacking(const RadixTree::Node& node, int begin, int end) const {
  const auto& run = tree_.runs_[node.run];
  const ExtentList slots = run.slots.slice(begin - run.begin, end - begin);
  for (std::size_t i = slots.extents().size(); i-- > 0;) {
    const Extent& extent = slots.extents()[i];
    end -= extent.length;
    if (const int at = tree_.windows_->last_lacking(extent); at >= 0) return end + at;
  }
  return -1;
}

// The longest prefix of a walk at which key and limit allow a match to end and all that a window reads of it is there.
TreeWindows::Walk TreeWindows::readable(Walk at, const CacheKey& key, MatchLimit limit) const {
  int end = at.length, have = end;  // of [have, end) all have their window slots
  for (std::uint32_t n = at.node; !tree_.nodes_[n].is_root(); n = tree_.nodes_[n].parent) {
    const auto& node = tree_.nodes_[n];
    while (have > std::max(node.begin, tree_.windows_->first_read(end))) {
      const int from = std::max(node.begin, tree_.windows_->first_read(end)), lacking = last_lacking(node, from, have);
      have = from;
      if (lacking >= 0) have = end = shorten(lacking, key, limit);
    }
    if (have <= tree_.windows_->first_read(end)) break;
  }
  return tree_.climb(at, end);
}

TreeWindows::Walk TreeWindows::usable(Walk at, const CacheKey& key, MatchLimit limit, RadixTree::StateAt& state,
                                      MatchEnd& end) const {
  for (;;) {
    if (tree_.windows_ != nullptr && limit.with_window) {
      const Walk read = readable(at, key, limit);
      if (read.length < at.length) end = MatchEnd::no_window;
      at = read;
    }
    if (tree_.cells() == nullptr || !limit.with_state) return at;
    state = tree_.last_fitting_state(at, key, limit);
    if (state.position == at.length) return at;
    end = MatchEnd::no_state;
    at = tree_.climb(at, state.position);
  }
}

int TreeWindows::last_readable(const PinnedPrefix& prefix) const {
  if (tree_.windows_ == nullptr || prefix.tree_ != &tree_) return prefix.length_;
  return readable({prefix.node_, prefix.length_}, {}, {}).length;
}

void TreeWindows::touch(std::uint32_t n, int begin, int end) const {
  const ExtentList slots = tree_.slots_between(n, begin, end);
  for (const Extent& extent : slots.extents()) tree_.windows_->touch(extent, tree_.clock_);
}

// Of the nodes of which somebody reads window slots: from which position on.
TreeWindows::NeededFrom TreeWindows::needed_from(std::span<const WindowUse> in_use) const {
  NeededFrom from;
  for (const WindowUse& use : in_use) {
    if (use.prefix->tree_ != &tree_) continue;
    for (std::uint32_t n = use.prefix->node_; !tree_.nodes_[n].is_root() && tree_.nodes_[n].end > use.from;
         n = tree_.nodes_[n].parent) {
      const auto [known, added] = from.emplace(n, use.from);
      if (!added) known->second = std::min(known->second, use.from);
    }
  }
  return from;
}

int TreeWindows::in_use(std::span<const WindowUse> in_use) const {
  if (tree_.windows_ == nullptr) return 0;
  int count = 0;
  for (const auto& [n, first] : needed_from(in_use)) {
    const ExtentList slots = tree_.slots_between(n, std::max(first, tree_.nodes_[n].begin), tree_.nodes_[n].end);
    for (const Extent& extent : slots.extents()) count += tree_.windows_->count(extent);
  }
  return count;
}

// Whether a sequence that goes on from the node's end, or from one of the places in between that are kept, reads any
// of these positions.
bool TreeWindows::is_gone_on_from(const RadixTree::Node& node, int begin, int end) const {
  if (end > tree_.windows_->first_read(std::max(node.end - kBehindTurn, 0))) return true;
  const int run = static_cast<int>(tree_.runs_[node.run].tokens.size());
  int period = kLeastPeriod;
  while (period < kWindowsApart * tree_.windows_->most_read() || run / period > kMostWithin) period *= 2;
  const int next = (begin / period + 1) * period;  // the first place behind `begin`
  return next <= node.end && end > tree_.windows_->first_read(next);
}

void TreeWindows::add_pieces(std::uint32_t n, int needed_from, std::vector<Piece>& to) const {
  const auto& node = tree_.nodes_[n];
  const int free_end = std::min(node.end, needed_from);
  for (int begin = node.begin; begin < free_end;) {
    const int end = std::min(free_end, (begin / kPiece + 1) * kPiece);
    Piece piece{is_gone_on_from(node, begin, end) ? 1 : 0, 0, begin, end, n};
    bool any = false;
    const ExtentList slots = tree_.slots_between(n, begin, end);
    for (const Extent& extent : slots.extents()) {
      any = any || tree_.windows_->count(extent) > 0;
      piece.last_use = std::max(piece.last_use, tree_.windows_->last_use(extent));
    }
    if (any) to.push_back(piece);
    begin = end;
  }
}

int TreeWindows::evict(RadixTree& tree, int wanted, std::span<const WindowUse> in_use) {
  WindowSlots* const slots = tree.windows_;
  if (slots == nullptr || wanted <= 0) return 0;
  wanted = std::max(wanted, slots->pool().capacity() / kFreedAtOnce);
  const TreeWindows view(tree);
  const NeededFrom from = view.needed_from(in_use);
  std::vector<Piece> pieces;
  for (std::uint32_t n = 0; n < tree.nodes_.size(); ++n) {
    if (!tree.nodes_[n].live || tree.nodes_[n].is_root()) continue;
    const auto needed = from.find(n);
    view.add_pieces(n, needed == from.end() ? tree.nodes_[n].end : needed->second, pieces);
  }
  std::ranges::sort(pieces);
  int freed = 0;
  for (std::size_t i = 0; i < pieces.size() && freed < wanted; ++i) {
    const Piece& piece = pieces[i];
    if (tree.observer_ != nullptr && piece.rank > 0)
      tree.observer_->evicting_windows(tree, tree.handle(piece.node), piece.begin, piece.end);
    freed += slots->drop(tree.slots_between(piece.node, piece.begin, piece.end));
  }
  if (freed > 0) ++tree.version_;
  tree.counters_.evicted_windows += freed;
  return freed;
}

}  // namespace espalier
