#include "cache/disk/disk_prefixes.h"

#include <algorithm>

#include "cache/tree/token_compare.h"

namespace espalier {
namespace {

constexpr std::size_t kMostLoads = 4;  // at the same time; more requests wait for their turn
constexpr int kMostTries = 3;          // loads for one request: a disk that keeps failing must not hold it
constexpr int kLeastShared = 16;       // tokens for which a request waits for another's load

int blocks_of_tokens(int tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

}  // namespace

DiskPrefixes::DiskPrefixes(std::unique_ptr<DiskTier> tier, RadixTree& tree, SlotAllocator& allocator,
                           SlotCopier& copier, bool store_evicted)
    : tier_(std::move(tier)), tree_(tree), allocator_(allocator), copier_(copier), store_evicted_(store_evicted) {
  tree_.observe(this);
}

DiskPrefixes::~DiskPrefixes() {
  tree_.observe(nullptr);
}

// --- from the tree to disk ---

DiskPrefixes::Path DiskPrefixes::path_to(NodeHandle node, int end, int slots_from) const {
  Path path;
  path.slots_from = slots_from;
  path.tokens.resize(static_cast<std::size_t>(end));
  std::vector<RadixTree::NodeView> with_slots;
  for (auto view = tree_.view(node);; view = tree_.view(view.parent)) {
    const int count = std::min(view.end, end) - view.begin;
    if (count > 0) std::copy_n(view.tokens.begin(), count, path.tokens.begin() + view.begin);
    if (count > 0 && view.end > slots_from) with_slots.push_back(view);
    if (view.begin == 0) break;
  }
  for (auto view = with_slots.rbegin(); view != with_slots.rend(); ++view) {
    const int from = std::max(view->begin, slots_from);
    path.slots.append(tree_.extents(view->node), from - view->begin, std::min(view->end, end) - from);
  }
  return path;
}

DiskTier::Store DiskPrefixes::store(std::string_view scope, const Path& path, DiskTier::Piece piece,
                                    DiskTier::WaitLimit wait_limit) {
  const auto slots = path.slots.slice(piece.first_block * kBlockTokens - path.slots_from, piece.blocks * kBlockTokens);
  return tier_->store(
      scope, path.tokens, piece,
      [&](std::span<std::byte> into) { copier_.copy_out(slots, into, tier_->block_stride()); }, wait_limit);
}

// The bytes of a state and the tokens behind its last whole block, in blocks that hang behind those.
StateBlocks DiskPrefixes::blocks_of(int position) const {
  const auto bytes = copier_.state(0).size(), stride = static_cast<std::size_t>(tier_->block_stride());
  return {position, static_cast<int>((bytes + stride - 1) / stride)};
}

// False when the tier takes no more for now.
bool DiskPrefixes::store_state(const SnapshotView& snapshot, DiskTier::WaitLimit wait_limit) {
  const StateBlocks blocks = blocks_of(snapshot.position);
  const Path path = path_to(snapshot.node, snapshot.position, blocks.whole() * kBlockTokens);
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
      const auto state =
          copier_.state(snapshot.cell).subspan(static_cast<std::size_t>(block - blocks.bytes_from()) * stride);
      std::copy_n(state.begin(), std::min(state.size(), into.size()), into.begin());
    };
    if (tier_->store(tree_.view(snapshot.node).scope, tokens, piece, fill, wait_limit) != DiskTier::Store::queued)
      return false;
  }
  return true;
}

void DiskPrefixes::evicting_state(const RadixTree& /*tree*/, NodeHandle node, int position, int cell) {
  if (paused_ || !store_evicted_ || !tier_->on()) return;
  if (tier_->rates().pays_or_retry(position, 1, blocks_of(position).count() * kBlockTokens))
    store_state({node, position, cell, 0}, {});
  else
    tier_->drop_short(position);
}

// The slots still hold what is evicted. All whole blocks of the leaf that share a piece with it are stored together:
// they go next, and a file of one piece is read in one go.
void DiskPrefixes::evicting(const RadixTree& tree, NodeHandle node, int cut) {
  if (paused_ || !store_evicted_ || !tier_->on()) return;
  const auto view = tree.view(node);
  const int lost = cut / kBlockTokens, end = view.end / kBlockTokens;
  const bool known = last_.node == node.index && last_.end == view.end;
  if (lost >= end || (known && lost >= last_.stored_from)) {
    if (known) last_.end = cut;
    return;
  }
  const int first = std::max(lost / tier_->piece_blocks() * tier_->piece_blocks(), view.begin / kBlockTokens);
  last_ = {node.index, cut, first};
  const Path path = path_to(node, end * kBlockTokens, first * kBlockTokens);
  for (const auto& piece : tier_->missing(view.scope, path.tokens, first)) {
    const int tokens = piece.blocks * kBlockTokens;
    if (tier_->rates().pays_or_retry(tokens, 1))
      store(view.scope, path, piece, {});
    else
      tier_->drop_short(tokens);
  }
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
    const Path path = path_to(node, view.end / kBlockTokens * kBlockTokens, 0);
    for (const auto& piece : tier_->missing(view.scope, path.tokens, 0)) {
      if (store(view.scope, path, piece, wait_limit) != DiskTier::Store::queued || !tier_->on()) return false;
      tokens += piece.blocks * kBlockTokens;
    }
    return true;
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

// --- from disk to the tree ---

// A load that brings this request more than the tree has now.
DiskPrefixes::Load* DiskPrefixes::load_for(const LoadRequest& request) {
  for (Load& load : loads_) {
    if (load.scope != request.key.scope) continue;
    const int most = std::min(request.limit, static_cast<int>(load.tokens.size()));
    const int same = common_prefix(request.key.tokens.data(), load.tokens.data(), most);
    int brings = load.done ? std::min(same, load.pin.length()) : same;
    if (load.state && same < static_cast<int>(load.tokens.size())) brings = 0;  // its state is of all of them
    if (load.owners.contains(request.owner) || brings - request.matched >= kLeastShared) return &load;
  }
  return nullptr;
}

bool DiskPrefixes::wait_for(const LoadRequest& request, DiskMemory& memory) {
  if (Load* load = load_for(request)) {
    load->owners.insert(request.owner);
    return !load->done;
  }
  if (!tier_->on() || memory.loads >= kMostTries) return false;
  if (memory.version == tier_->version() && memory.matched == request.matched) return false;
  const Plan plan = tree_.cells() != nullptr ? plan_to_state(request) : plan_of(request);
  const int gain = plan.end - request.matched;
  if (gain > 0 && gain > request.room) return false;  // asked again when there is room
  if (gain > 0 && loads_.size() >= kMostLoads) return true;
  if (gain <= 0 || !tier_->rates().pays_or_retry(gain, plan.files(), plan.tokens_read())) {
    memory.version = tier_->version();
    memory.matched = request.matched;
    return false;
  }
  ++memory.loads;
  return begin(request, plan);
}

int DiskPrefixes::Plan::tokens_read() const {
  int blocks = 0;
  for (const auto* ranges : {&tokens, &state})
    for (const auto& range : *ranges) blocks += range.count;
  return blocks * kBlockTokens;
}

DiskPrefixes::Plan DiskPrefixes::plan_of(const LoadRequest& request) const {
  const int usable =
      std::min(static_cast<int>(request.key.tokens.size()), blocks_of_tokens(request.limit) * kBlockTokens);
  const auto tokens = request.key.tokens.first(static_cast<std::size_t>(std::max(usable, 0)));
  Plan plan;
  plan.from = request.matched / kBlockTokens;
  plan.tokens = tier_->find(request.key.scope, tokens, plan.from);
  plan.end = std::min(plan.from * kBlockTokens + plan.tokens_read(), request.limit);
  return plan;
}

// The last state that can be read, and the tokens before it that the tree lacks.
DiskPrefixes::Plan DiskPrefixes::plan_to_state(const LoadRequest& request) const {
  const auto limit =
      static_cast<std::size_t>(std::clamp(request.limit, 0, static_cast<int>(request.key.tokens.size())));
  const auto tokens = request.key.tokens.first(limit);
  const int held = tree_.peek(request.key, {.length = request.limit, .with_state = false}).length;
  for (const int position : tier_->catalogue().states(request.key.scope, tokens)) {
    if (position <= request.matched) break;
    const StateBlocks blocks = blocks_of(position);
    Plan plan;
    plan.end = position;
    plan.from = std::min(held / kBlockTokens, blocks.whole());
    plan.state = tier_->find(request.key.scope, state_path(tokens, blocks), blocks.first());
    if (plan.tokens_read() != blocks.count() * kBlockTokens) continue;
    if (plan.from < blocks.whole())
      plan.tokens = tier_->find(request.key.scope,
                                tokens.first(static_cast<std::size_t>(blocks.whole()) * kBlockTokens), plan.from);
    if (plan.tokens_read() == (blocks.count() + blocks.whole() - plan.from) * kBlockTokens) return plan;
  }
  return {};
}

bool DiskPrefixes::begin(const LoadRequest& request, const Plan& plan) {
  const bool with_state = !plan.state.empty();
  Match match = tree_.match(request.key, {.length = with_state ? plan.end : request.matched, .with_state = false});
  if (with_state ? match.length < plan.from * kBlockTokens : match.length != request.matched) return false;
  Load load;
  if (with_state) {
    load.state = tree_.cells()->take();
    if (!load.state && tree_.evict_states(1) > 0) load.state = tree_.cells()->take();
    if (!load.state) return false;
  }
  load.scope = request.key.scope;
  load.tokens.assign(request.key.tokens.begin(), request.key.tokens.begin() + plan.end);
  load.cursor.follow(match.extents.last_slot(), match.length);
  load.held_before = request.matched;
  load.pin = std::move(match.pin);
  load.owners.insert(request.owner);
  if (!plan.tokens.empty()) load.id = tier_->load(request.key.scope, request.key.tokens, plan.from, plan.tokens);
  if (with_state) {
    const StateBlocks blocks = blocks_of(plan.end);
    load.tokens_id = load.id;
    load.id = tier_->load(request.key.scope, state_path(load.tokens, blocks), blocks.first(), plan.state);
  }
  loads_.push_back(std::move(load));
  return true;
}

std::optional<OwnedSlots> DiskPrefixes::take_slots(int count, SlotCursor& cursor) {
  if (allocator_.free_slots() < count) tree_.evict(count - allocator_.free_slots());
  return allocator_.allocate(count, cursor);
}

// The tokens before `end` that the tree lacks, out of blocks from `first_block` on; false when memory is short, or those
// before them did not come.
bool DiskPrefixes::place(Load& load, std::span<const std::byte> blocks, int first_block, int end) {
  const int have = load.pin.length(), begin = first_block * kBlockTokens;
  if (end <= have) return true;
  auto slots = begin <= have ? take_slots(end - have, load.cursor) : std::nullopt;
  if (!slots) return false;
  copier_.copy_in(blocks, tier_->block_stride(), have - begin, slots->extents());
  const auto tokens = std::span<const TokenId>(load.tokens).subspan(static_cast<std::size_t>(have));
  const Insertion inserted =
      tree_.extend(load.pin, tokens.first(static_cast<std::size_t>(end - have)), std::move(*slots));
  load.cursor.follow(inserted.extents.last_slot(), end);
  tier_->counters().loaded_tokens.add(static_cast<std::uint64_t>(end - have));
  return true;
}

// A piece of a state's blocks: perhaps the tokens before it, then some of its bytes. The last one completes it.
bool DiskPrefixes::place_state(Load& load, const DiskTier::Loaded& piece) {
  const auto end = static_cast<int>(load.tokens.size());
  const StateBlocks blocks = blocks_of(end);
  const auto stride = static_cast<std::size_t>(tier_->block_stride());
  auto bytes = piece.buffer.bytes().first(static_cast<std::size_t>(piece.blocks) * stride);
  int block = piece.first_block;
  if (block == blocks.first()) {
    if (!place(load, bytes.first(stride), blocks.whole(), end)) return false;
    bytes = bytes.subspan(stride);
    ++block;
  }
  const auto state =
      copier_.state(load.state.index()).subspan(static_cast<std::size_t>(block - blocks.bytes_from()) * stride);
  std::copy_n(bytes.begin(), std::min(bytes.size(), state.size()), state.begin());
  if (!piece.last) return true;
  if (load.pin.length() != end) return false;
  tree_.leave_state(load.pin, end, load.state.share());
  return true;
}

// Where memory is short the rest is computed when there is room.
void DiskPrefixes::take(const DiskTier::Loaded& piece) {
  const auto load = std::find_if(loads_.begin(), loads_.end(),
                                 [&](const Load& l) { return l.id == piece.load || l.tokens_id == piece.load; });
  if (load == loads_.end() || load->done) return;
  const bool of_state = load->state && piece.load == load->id;
  const int end = std::min((piece.first_block + piece.blocks) * kBlockTokens, static_cast<int>(load->tokens.size()));
  const bool placed = !piece.failed && (of_state ? place_state(*load, piece)
                                                 : place(*load, piece.buffer.bytes(), piece.first_block, end));
  if (!placed) stop(*load);
  load->done = load->done || !placed || (piece.last && piece.load == load->id);
  if (load->done) load->cursor.reset();
}

void DiskPrefixes::stop(const Load& load) {
  tier_->cancel(load.id);
  tier_->cancel(load.tokens_id);
}

void DiskPrefixes::collect(int most_pieces) {
  for (DiskTier::Loaded& piece : tier_->collect()) arrived_.push_back(std::move(piece));
  for (; most_pieces > 0 && !arrived_.empty(); --most_pieces) {
    take(arrived_.front());
    arrived_.pop_front();  // the reading thread may wait for its buffer
  }
}

int DiskPrefixes::forget(std::uint64_t owner) {
  int read = 0;
  std::erase_if(loads_, [&](Load& load) {
    if (load.owners.erase(owner) == 0) return false;
    const bool whole = !load.state || (load.done && load.pin.length() == static_cast<int>(load.tokens.size()));
    if (whole) read += load.pin.length() - load.held_before;
    if (!load.owners.empty()) return false;
    stop(load);
    return true;
  });
  return read;
}

bool DiskPrefixes::give_up() {
  if (loads_.empty()) return false;
  for (const Load& load : loads_) stop(load);
  loads_.clear();
  arrived_.clear();
  return true;
}

void DiskPrefixes::computed(int tokens, double seconds) {
  tier_->rates().computed(tokens, seconds);
  tier_->publish_rates();
}

void DiskPrefixes::clear() {
  give_up();
  paused_ = true;
  tree_.evict_all();
  paused_ = false;
  last_ = {};
  tier_->clear();
}

}  // namespace espalier
