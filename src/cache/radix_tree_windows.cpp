// What is read through a window in the radix tree: how far back a match has to go where some of it is gone, and which
// goes first.
//
// Whether a token has its window slot is told by its slot (window_slots.h), so nodes and runs keep nothing of it.
#include <algorithm>

#include "cache/radix_tree.h"

namespace espalier {
namespace {

constexpr int kPiece = 128;           // positions that go together, at multiples of so many
constexpr int kBehindTurn = 16;       // tokens that a template writes behind a turn, and otherwise once it is history
constexpr int kLeastPeriod = 512;     // tokens between the windows that stay within a long run,
constexpr int kWindowsApart = 4;      // at least so many windows,
constexpr int kMostWithin = 16;       // and of one run at most so many
constexpr int kFreedAtOnce = 64;      // part of all window slots that is freed at least: what is to go is looked for in the whole tree

}  // namespace

// The number of the last position of [begin, end), all in the node, that has no window slot; -1: all have one.
int RadixTree::last_lacking(const Node& node, int begin, int end) const {
  const Run& run = runs_[node.run];
  const ExtentList slots = run.slots.slice(begin - run.begin, end - begin);
  for (std::size_t i = slots.extents().size(); i-- > 0;) {
    const Extent& extent = slots.extents()[i];
    end -= extent.length;
    if (const int at = windows_->last_lacking(extent); at >= 0) return end + at;
  }
  return -1;
}

// The longest prefix of a walk at which key and limit allow a match to end and all that a window reads of it is there.
RadixTree::Walk RadixTree::readable(Walk at, const CacheKey& key, MatchLimit limit) const {
  int end = at.length, have = end;  // of [have, end) all have their window slots
  for (std::uint32_t n = at.node; !nodes_[n].is_root(); n = nodes_[n].parent) {
    const Node& node = nodes_[n];
    while (have > std::max(node.begin, windows_->first_read(end))) {
      const int from = std::max(node.begin, windows_->first_read(end)), lacking = last_lacking(node, from, have);
      have = from;
      if (lacking >= 0) have = end = shorten(lacking, key, limit);
    }
    if (have <= windows_->first_read(end)) break;
  }
  return climb(at, end);
}

// The longest prefix of a walk that a sequence can go on from; the state behind it, and why it is no longer.
RadixTree::Walk RadixTree::usable(Walk at, const CacheKey& key, MatchLimit limit, StateAt& state, MatchEnd& end) const {
  for (;;) {
    if (windows_ != nullptr && limit.with_window) {
      const Walk read = readable(at, key, limit);
      if (read.length < at.length) end = MatchEnd::no_window;
      at = read;
    }
    if (cells_ == nullptr || !limit.with_state) return at;
    state = last_fitting_state(at, key, limit);
    if (state.position == at.length) return at;
    end = MatchEnd::no_state;
    at = climb(at, state.position);
  }
}

int RadixTree::last_readable(const PinnedPrefix& prefix) const {
  if (windows_ == nullptr || prefix.tree_ != this) return prefix.length_;
  return readable({prefix.node_, prefix.length_}, {}, {}).length;
}

void RadixTree::touch_windows(std::uint32_t n, int begin, int end) {
  const ExtentList slots = slots_between(n, begin, end);
  for (const Extent& extent : slots.extents()) windows_->touch(extent, clock_);
}

// Of the nodes of which somebody reads window slots: from which position on.
RadixTree::NeededFrom RadixTree::needed_from(std::span<const WindowUse> in_use) const {
  NeededFrom from;
  for (const WindowUse& use : in_use) {
    if (use.prefix->tree_ != this) continue;
    for (std::uint32_t n = use.prefix->node_; !nodes_[n].is_root() && nodes_[n].end > use.from; n = nodes_[n].parent) {
      const auto [known, added] = from.emplace(n, use.from);
      if (!added) known->second = std::min(known->second, use.from);
    }
  }
  return from;
}

int RadixTree::windows_in_use(std::span<const WindowUse> in_use) const {
  if (windows_ == nullptr) return 0;
  int count = 0;
  for (const auto& [n, first] : needed_from(in_use)) {
    const ExtentList slots = slots_between(n, std::max(first, nodes_[n].begin), nodes_[n].end);
    for (const Extent& extent : slots.extents()) count += windows_->count(extent);
  }
  return count;
}

// Whether a sequence that goes on from the node's end, or from one of the places in between that are kept, reads any
// of these positions.
bool RadixTree::is_gone_on_from(const Node& node, int begin, int end) const {
  if (end > windows_->first_read(std::max(node.end - kBehindTurn, 0))) return true;
  const int run = static_cast<int>(runs_[node.run].tokens.size());
  int period = kLeastPeriod;
  while (period < kWindowsApart * windows_->most_read() || run / period > kMostWithin) period *= 2;
  const int next = (begin / period + 1) * period;  // the first place behind `begin`
  return next <= node.end && end > windows_->first_read(next);
}

void RadixTree::add_pieces(std::uint32_t n, int needed_from, std::vector<WindowPiece>& to) const {
  const Node& node = nodes_[n];
  const int free_end = std::min(node.end, needed_from);
  for (int begin = node.begin; begin < free_end;) {
    const int end = std::min(free_end, (begin / kPiece + 1) * kPiece);
    WindowPiece piece{is_gone_on_from(node, begin, end) ? 1 : 0, 0, begin, end, n};
    bool any = false;
    const ExtentList slots = slots_between(n, begin, end);
    for (const Extent& extent : slots.extents()) {
      any = any || windows_->count(extent) > 0;
      piece.last_use = std::max(piece.last_use, windows_->last_use(extent));
    }
    if (any) to.push_back(piece);
    begin = end;
  }
}

int RadixTree::evict_windows(int wanted, std::span<const WindowUse> in_use) {
  if (windows_ == nullptr || wanted <= 0) return 0;
  wanted = std::max(wanted, windows_->pool().capacity() / kFreedAtOnce);
  const NeededFrom from = needed_from(in_use);
  std::vector<WindowPiece> pieces;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!nodes_[n].live || nodes_[n].is_root()) continue;
    const auto needed = from.find(n);
    add_pieces(n, needed == from.end() ? nodes_[n].end : needed->second, pieces);
  }
  std::ranges::sort(pieces);
  int freed = 0;
  for (std::size_t i = 0; i < pieces.size() && freed < wanted; ++i)
    freed += windows_->drop(slots_between(pieces[i].node, pieces[i].begin, pieces[i].end));
  if (freed > 0) ++version_;
  counters_.evicted_windows += freed;
  return freed;
}

}  // namespace espalier
