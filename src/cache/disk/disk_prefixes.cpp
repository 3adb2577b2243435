#include "cache/disk/disk_prefixes.h"

#include <algorithm>

namespace espalier {

DiskPrefixes::DiskPrefixes(std::unique_ptr<DiskTier> tier, RadixTree& tree, SlotAllocator& allocator,
                           SlotCopier& copier, bool store_evicted)
    : fleet_(*tier, tree, copier),
      tier_(std::move(tier)),
      tree_(tree),
      allocator_(allocator),
      copier_(copier),
      store_evicted_(store_evicted) {
  tree_.observe(this);
}

DiskPrefixes::~DiskPrefixes() {
  tree_.observe(nullptr);
  fleet_.stop();
  try {
    settle_copies();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a device that fails now loses only what would have been kept
  }
}

// What copies go on ends, so that buffers can be written, or used again.
void DiskPrefixes::settle_copies() {
  copier_.settle();
  tier_->filled();
  fleet_.filled();
  copied_from_.clear();
}

void DiskPrefixes::keep_windows(WindowCopier& copier, DiskWindows::MakeRoom make_room) {
  if (allocator_.windows() != nullptr && tree_.cells() == nullptr)
    windows_.emplace(*tier_, *allocator_.windows(), copier, std::move(make_room));
}

// --- from the tree to disk ---

DiskTier::Store DiskPrefixes::store(std::string_view scope, const Path& path, DiskTier::Piece piece,
                                    DiskTier::WaitLimit wait_limit) {
  const auto slots = path.slots.slice(piece.first_block * kBlockTokens - path.slots_from, piece.blocks * kBlockTokens);
  const auto done = tier_->store(
      scope, path.tokens, piece,
      [&](std::span<std::byte> into) { copier_.begin_copy_out(slots, into, tier_->block_stride()); }, wait_limit,
      DiskTier::Filled::later);
  if (copier_.settled() || wait_limit.until != DiskTier::Time::min()) settle_copies();
  return done;
}

// The bytes of a state and the tokens behind its last whole block, in blocks that hang behind those.
StateBlocks DiskPrefixes::blocks_of(int position) const {
  const auto bytes = copier_.state_bytes(), stride = static_cast<std::size_t>(tier_->block_stride());
  return {position, static_cast<int>((bytes + stride - 1) / stride)};
}

// False when the tier takes no more for now.
bool DiskPrefixes::store_state(const SnapshotView& snapshot, DiskTier::WaitLimit wait_limit) {
  const StateBlocks blocks = blocks_of(snapshot.position);
  const Path path = tree_path(tree_, snapshot.node, snapshot.position, blocks.whole() * kBlockTokens);
  const std::vector<TokenId> tokens = state_path(path.tokens, blocks);
  const auto stride = static_cast<std::size_t>(tier_->block_stride());
  for (const auto& piece : tier_->missing(tree_.view(snapshot.node).scope, tokens, blocks.first())) {
    const auto fill = [&](std::span<std::byte> into) {
      std::ranges::fill(into, std::byte{});
      int block = piece.first_block;
      if (block == blocks.first()) {
        copier_.copy_out(path.slots, into.first(stride), stride);
        into = into.subspan(stride);
        ++block;
      }
      const auto from = static_cast<std::size_t>(block - blocks.bytes_from()) * stride;
      copier_.copy_state_out(snapshot.cell, from, into.first(std::min(copier_.state_bytes() - from, into.size())));
    };
    if (tier_->store(tree_.view(snapshot.node).scope, tokens, piece, fill, wait_limit) != DiskTier::Store::queued)
      return false;
  }
  return true;
}

void DiskPrefixes::evicting_state(const RadixTree& /*tree*/, NodeHandle node, int position, int cell) {
  if (paused_ || !store_evicted_ || !tier_->on()) return;
  if (tier_->pays_to_store(position, 1, blocks_of(position).count() * kBlockTokens))
    store_state({node, position, cell, 0}, {});
  else
    tier_->drop_short(position);
}

// The slots still hold what is evicted. All whole blocks of the leaf that share a piece with it are stored together:
// they go next, and a file of one piece is read in one go.
void DiskPrefixes::evicting(const RadixTree& tree, NodeHandle node, int cut) {
  if (!paused_) fleet_.evicting(node, cut);
  if (paused_ || !store_evicted_ || !tier_->on()) return;
  if (windows_) store_lost_windows(node, cut);
  const auto view = tree.view(node);
  const auto first = last_.first_to_take(view, cut, tier_->piece_blocks());
  if (!first) return;
  const Path path = tree_path(tree_, node, view.end / kBlockTokens * kBlockTokens, *first * kBlockTokens);
  for (const auto& piece : tier_->missing(view.scope, path.tokens, *first)) {
    const int tokens = piece.blocks * kBlockTokens;
    if (tier_->pays_to_store(tokens, 1, tokens))
      store(view.scope, path, piece, {});
    else
      tier_->drop_short(tokens);
  }
}

// Of the leaf's windows no more than what goes now: all of them would want more buffers than there are.
void DiskPrefixes::store_lost_windows(NodeHandle node, int cut) {
  const auto view = tree_.view(node);
  const bool known = last_windows_.node == node.index && last_windows_.end == view.end;
  const int end = known ? last_windows_.stored_from : window_end(view, view.end);
  const int from = std::max(DiskWindows::first_of(cut), view.begin);
  if (from < end) store_windows(node, from, end, {}, true);
  last_windows_ = {node.index, cut, std::min(from, end)};
}

// What the window slots of these positions hold, as far as there are any. False when the tier takes no more for now.
bool DiskPrefixes::store_windows(NodeHandle node, int first, int end, DiskTier::WaitLimit wait_limit,
                                 bool only_if_it_pays) {
  if (!windows_ || first >= end) return true;
  const Path path = tree_path(tree_, node, end, DiskWindows::first_of(first));
  return windows_->store(tree_.view(node).scope, path.tokens, path.slots, first, end, wait_limit, only_if_it_pays);
}

// Where others go on from a node, the block in which it ends is theirs: what stands in the node is stored to its end.
int DiskPrefixes::window_end(const RadixTree::NodeView& view, int end) {
  return view.leaf || end < view.end ? end / kBlockTokens * kBlockTokens : end;
}

void DiskPrefixes::evicting_windows(const RadixTree& tree, NodeHandle node, int begin, int end) {
  if (!paused_ && store_evicted_ && tier_->on()) store_windows(node, begin, window_end(tree.view(node), end), {}, true);
}

// Every node that ends a whole block, the last used first: a node may have been used after what stands behind it.
std::vector<NodeHandle> DiskPrefixes::nodes_by_use() const {
  std::vector<std::pair<std::uint64_t, NodeHandle>> nodes;
  tree_.for_each([&](const RadixTree::NodeView& view) {
    if (view.end / kBlockTokens > view.begin / kBlockTokens || tree_.cells() != nullptr)
      nodes.emplace_back(view.use.last_use, view.node);
  });
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<NodeHandle> handles;
  for (const auto& node : nodes) handles.push_back(node.second);
  return handles;
}

// Nodes with what they hold, and then their states.
std::int64_t DiskPrefixes::save(DiskTier::Time until) {
  collect();
  const DiskTier::WaitLimit wait_limit{until, tier_->now() + 1};
  std::int64_t tokens = 0;
  const auto save_node = [&](NodeHandle node) {
    const auto view = tree_.view(node);
    const Path path = tree_path(tree_, node, view.end / kBlockTokens * kBlockTokens, 0);
    for (const auto& piece : tier_->missing(view.scope, path.tokens, 0)) {
      if (store(view.scope, path, piece, wait_limit) != DiskTier::Store::queued || !tier_->on()) return false;
      tokens += piece.blocks * kBlockTokens;
    }
    return store_windows(node, view.begin, window_end(view, view.end), wait_limit, false);
  };
  const std::vector<SnapshotView> states = tree_.states();
  const auto save_states = [&](NodeHandle node) {
    return std::ranges::all_of(states, [&](const auto& s) { return s.node != node || store_state(s, wait_limit); });
  };
  for (const NodeHandle node : nodes_by_use())
    if (!save_node(node) || !save_states(node)) break;
  tier_->flush(until);
  return tokens;
}

void DiskPrefixes::computed(int tokens, double seconds) {
  tier_->rates().computed(tokens, seconds);
  fleet_.computed(tokens, seconds);
  tier_->publish_rates();
}

void DiskPrefixes::clear() {
  give_up();
  settle_copies();
  paused_ = true;
  tree_.evict_all();
  paused_ = false;
  last_ = {};
  last_windows_ = {};
  fleet_.clear();
  tier_->clear();
}

}  // namespace espalier
