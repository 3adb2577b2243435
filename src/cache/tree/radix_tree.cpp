// The changing half of the radix tree.
#include "cache/tree/radix_tree.h"

#include <algorithm>

#include "cache/tree/tree_windows.h"

namespace espalier {

PinnedPrefix& PinnedPrefix::operator=(PinnedPrefix&& other) noexcept {
  if (this == &other) return *this;
  reset();
  tree_ = std::exchange(other.tree_, nullptr);
  node_ = other.node_;
  length_ = std::exchange(other.length_, 0);
  return *this;
}

PinnedPrefix PinnedPrefix::share() const {
  if (tree_ != nullptr) tree_->pin(node_);
  return {tree_, node_, length_};
}

void PinnedPrefix::reset() {
  if (tree_ != nullptr) std::exchange(tree_, nullptr)->unpin(node_);
  length_ = 0;
}

RadixTree::RadixTree(SlotAllocator& allocator, EvictionKind eviction, StateCells* cells)
    : allocator_(allocator),
      windows_(allocator.windows()),
      snapshots_(*this, *this, cells),
      policy_(make_eviction_policy(eviction)) {}

RadixTree::~RadixTree() {
  for (const Run& run : runs_) allocator_.release(run.slots);
}

Match RadixTree::match(const CacheKey& key, MatchLimit limit) {
  std::uint32_t root = root_of(key.scope);
  Walk full = walk({root, 0}, key.tokens, 0, std::clamp(limit.length, 0, static_cast<int>(key.tokens.size())));
  Match result;
  result.length = result.held = shorten(full.length, key, limit);
  result.end = why(key, full, result.length);
  StateAt state;
  result.length = TreeWindows(*this).usable(climb(full, result.held), key, limit, state, result.end).length;
  if (state.cell >= 0) {
    snapshots_.use(state.cell);
    result.state = snapshots_.share(state.cell);
  }
  std::uint32_t last = climb(full, result.length).node;
  if (result.length < nodes_[last].end) last = split(last, result.length);
  pin(last);
  touch_path(last);
  if (windows_ != nullptr) TreeWindows(*this).touch(last, windows_->first_read(result.length), result.length);
  result.pin = PinnedPrefix(this, last, result.length);
  result.extents = slots_between(last, 0, result.length);
  counters_.matches += 1;
  counters_.asked_tokens += static_cast<std::int64_t>(key.tokens.size());
  counters_.hit_tokens += result.length;
  return result;
}

Insertion RadixTree::extend(PinnedPrefix& prefix, std::span<const TokenId> tokens, OwnedSlots slots,
                            std::span<const TokenSpan> whole) {
  Insertion result;
  auto room = static_cast<std::size_t>(std::numeric_limits<int>::max() - prefix.length_);
  if (prefix.tree_ != this || static_cast<std::size_t>(slots.length()) != tokens.size() || tokens.size() > room ||
      (!slots.empty() && slots.allocator() != &allocator_)) {
    ++counters_.faults;
    result.duplicates = std::move(slots);
    return result;
  }
  if (tokens.empty()) return result;
  int base = prefix.length_;
  Walk at = walk({prefix.node_, base}, tokens, base, base + static_cast<int>(tokens.size()));
  result.already_held = at.length - base;
  result.extents = slots_between(at.node, base, at.length);
  result.duplicates = slots.take_front(result.already_held);
  if (windows_ != nullptr && result.already_held > 0) {
    windows_->move(result.duplicates.extents(), result.extents);
    ++version_;
  }
  if (at.length < nodes_[at.node].end) at.node = split(at.node, at.length);
  if (at.node != prefix.node_) {
    pin(at.node);
    unpin(std::exchange(prefix.node_, at.node));
  }
  prefix.length_ = at.length;
  counters_.duplicate_tokens += result.already_held;
  counters_.inserted_tokens += slots.length();
  if (!slots.empty()) {
    result.extents.append(slots.extents());
    append_leaf(prefix, tokens.subspan(result.already_held), slots.hand_over(), whole);
    ++version_;
  }
  nodes_[prefix.node_].last_use = ++clock_;
  if (windows_ != nullptr) TreeWindows(*this).touch(prefix.node_, base, prefix.length_);
  return result;
}

Insertion RadixTree::insert(const CacheKey& key, OwnedSlots slots) {
  std::uint32_t root = root_of(key.scope);
  pin(root);
  PinnedPrefix start(this, root, 0);
  return extend(start, key.tokens, std::move(slots), key.whole);
}

void RadixTree::leave_state(const PinnedPrefix& prefix, int position, StateCell state) {
  if (snapshots_.cells() == nullptr || prefix.tree_ != this || !state || position <= 0 || position > prefix.length_ ||
      holds_state(state.index())) {
    ++counters_.faults;
    return;
  }
  snapshots_.leave(nodes_[climb({prefix.node_, prefix.length_}, position).node].run, position, std::move(state));
}

bool RadixTree::move(NodeHandle last, int end, OwnedSlots slots) {
  const int begin = end - slots.length();
  if (!alive(last) || end > nodes_[last.index].end || end < nodes_[last.index].begin || begin < 0 ||
      (!slots.empty() && slots.allocator() != &allocator_)) {
    ++counters_.faults;
    return false;
  }
  ExtentList fresh = slots.hand_over();
  for (std::uint32_t n = last.index; !fresh.empty(); n = nodes_[n].parent) {
    const Node& node = nodes_[n];
    Run& run = runs_[node.run];
    const int from = std::max(begin, node.begin), count = std::min(end, node.end) - from;
    const ExtentList old = run.slots.slice(from - run.begin, count), now = fresh.take_back(count);
    if (windows_ != nullptr) windows_->move(old, now);
    allocator_.release(old);
    run.slots.replace(from - run.begin, now);
  }
  return true;
}

// A leaf that only the extending sequence itself has pinned grows in place; else others' pins would come to protect
// tokens they do not use.
bool RadixTree::can_grow(std::uint32_t n, const PinnedPrefix& prefix) const {
  const Node& node = nodes_[n];
  return !node.is_root() && node.first_child == none && node.pins == 1 && node.end == prefix.length_;
}

void RadixTree::append_leaf(PinnedPrefix& prefix, std::span<const TokenId> tokens, const ExtentList& slots,
                            std::span<const TokenSpan> whole) {
  int begin = prefix.length_;
  int end = begin + static_cast<int>(tokens.size());
  std::uint32_t n = prefix.node_;
  bool grows = can_grow(n, prefix);
  if (!grows) {
    n = new_node();
    nodes_[n].run = new_run();
    nodes_[n].begin = nodes_[n].end = begin;
    runs_[nodes_[n].run].begin = begin;
    runs_[nodes_[n].run].nodes = 1;
    runs_[nodes_[n].run].last = n;
  }
  Run& run = runs_[nodes_[n].run];
  run.tokens.insert(run.tokens.end(), tokens.begin(), tokens.end());
  run.slots.append(slots);
  for (TokenSpan span : whole) {
    if (span.begin >= begin && span.end <= end) run.whole.push_back(span);
  }
  nodes_[n].end = end;
  prefix.length_ = end;
  if (grows) {
    protected_ += end - begin;
  } else {
    link(prefix.node_, n);
    evictable_ += end - begin;
    pin(n);
    unpin(std::exchange(prefix.node_, n));
  }
  if (watcher != nullptr) watcher->inserted(*this, handle(n), begin, end);
}

int RadixTree::evict(int wanted, int more) {
  int freed = 0;
  while (freed < wanted && !leaves_.empty()) {
    EvictionHeap::Item lowest = leaves_.lowest();
    freed += evict_from(lowest.node, wanted - freed, more);
    policy_->evicted(lowest.rank);
  }
  if (freed > 0) ++version_;
  counters_.evicted_tokens += freed;
  return freed;
}

int RadixTree::evict_from(std::uint32_t leaf, int wanted, int more) {
  Run& run = runs_[nodes_[leaf].run];
  const int begin = nodes_[leaf].begin;
  const int end = nodes_[leaf].end;
  int cut = std::max(begin, end - wanted);
  if (more > 0) {
    const int extent = std::max(begin, run.begin + run.slots.extent_begin(cut - run.begin));
    if (cut - extent <= more) cut = extent;
  }
  for (auto span = run.whole.rbegin(); span != run.whole.rend() && span->end > cut; ++span) {
    if (span->begin < cut) cut = std::max(begin, span->begin);
  }
  if (observer_ != nullptr) observer_->evicting(*this, handle(leaf), cut);
  if (watcher != nullptr) watcher->leaving(*this, handle(leaf), cut, end);
  snapshots_.drop_behind(nodes_[leaf].run, cut);
  std::string_view scope = scope_of_root_.at(nodes_[leaf].root)->first;
  TokenId first_evicted = tokens_of(nodes_[leaf])[cut - begin];
  if (cut == begin)
    unlink(leaf);
  else
    ++nodes_[leaf].generation;  // it may grow again with other tokens: handles to its old end must not survive
  ghosts_.insert(ghost(cut == begin ? nodes_[leaf].parent : leaf, scope, first_evicted));
  allocator_.release(run.slots.take_back(end - cut));
  run.tokens.resize(cut - run.begin);
  if (run.tokens.capacity() > 4 * run.tokens.size() + 1024) run.tokens.shrink_to_fit();
  while (!run.whole.empty() && run.whole.back().end > cut) run.whole.pop_back();
  nodes_[leaf].end = cut;
  evictable_ -= end - cut;
  if (cut == begin) remove_leaf(leaf);
  return end - cut;
}

// Requires: the leaf is unlinked and holds nothing any more.
void RadixTree::remove_leaf(std::uint32_t leaf) {
  leaves_.remove(leaf);
  std::uint32_t p = nodes_[leaf].parent;
  std::uint32_t r = nodes_[leaf].run;
  if (--runs_[r].nodes == 0)
    release_run(r);
  else
    runs_[r].last = p;
  Node& parent = nodes_[p];
  // Whoever used the child used the parent: match() and unpin() need not stamp the whole path.
  parent.last_use = std::max(parent.last_use, nodes_[leaf].last_use);
  free_node(leaf);
  if (parent.is_root()) {
    drop_if_empty_root(p);
  } else if (parent.first_child == none && !parent.is_protected()) {
    leaves_.push(p, policy_->rank({parent.last_use, parent.hits, parent.begin, parent.end}));
  }
}

void RadixTree::pin(std::uint32_t n) {
  bool was_protected = nodes_[n].is_protected();
  ++nodes_[n].pins;
  while (!was_protected) {
    Node& node = nodes_[n];
    evictable_ -= node.length();
    protected_ += node.length();
    leaves_.remove(n);
    if (node.parent == none) break;
    n = node.parent;
    was_protected = nodes_[n].is_protected();
    ++nodes_[n].protected_children;
  }
}

void RadixTree::unpin(std::uint32_t n) {
  Node& node = nodes_[n];
  node.last_use = ++clock_;
  --node.pins;
  if (!node.is_protected()) became_free(n);
}

void RadixTree::became_free(std::uint32_t n) {
  while (true) {
    Node& node = nodes_[n];
    evictable_ += node.length();
    protected_ -= node.length();
    if (node.is_root()) return drop_if_empty_root(n);
    if (node.first_child == none) leaves_.push(n, policy_->rank({node.last_use, node.hits, node.begin, node.end}));
    n = node.parent;
    --nodes_[n].protected_children;
    if (nodes_[n].is_protected()) return;
  }
}

void RadixTree::touch_path(std::uint32_t n) {
  ++clock_;
  for (; n != none; n = nodes_[n].parent) {
    nodes_[n].last_use = clock_;
    if (nodes_[n].hits != UINT32_MAX) ++nodes_[n].hits;
  }
}

}  // namespace espalier
