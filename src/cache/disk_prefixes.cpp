#include "cache/disk_prefixes.h"

#include <algorithm>

#include "cache/token_compare.h"

namespace espalier {
namespace {

constexpr std::size_t kMostLoads = 4;  // at the same time; more requests wait for their turn
constexpr int kMostTries = 3;          // loads for one request: a disk that keeps failing must not hold it
constexpr int kLeastShared = 16;       // tokens for which a request waits for another's load

int blocks_of(int tokens) {
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
    if (view.end / kBlockTokens > view.begin / kBlockTokens) nodes.emplace_back(view.use.last_use, view.node);
  });
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<NodeHandle> handles;
  for (const auto& node : nodes) handles.push_back(node.second);
  return handles;
}

std::int64_t DiskPrefixes::save(DiskTier::Time until) {
  collect();
  const DiskTier::WaitLimit wait_limit{until, tier_->now() + 1};
  std::int64_t tokens = 0;
  for (const NodeHandle node : nodes_by_use()) {
    const auto view = tree_.view(node);
    const Path path = path_to(node, view.end / kBlockTokens * kBlockTokens, 0);
    for (const auto& piece : tier_->missing(view.scope, path.tokens, 0)) {
      if (store(view.scope, path, piece, wait_limit) != DiskTier::Store::queued || !tier_->on()) {
        tier_->flush(until);
        return tokens;
      }
      tokens += piece.blocks * kBlockTokens;
    }
  }
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
    const int brings = load.done ? std::min(same, load.pin.length()) : same;
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
  const int usable = std::min(static_cast<int>(request.key.tokens.size()), blocks_of(request.limit) * kBlockTokens);
  const auto tokens = request.key.tokens.first(static_cast<std::size_t>(std::max(usable, 0)));
  const int first = request.matched / kBlockTokens;
  const auto ranges = tier_->find(request.key.scope, tokens, first);
  int blocks = first;
  for (const auto& range : ranges) blocks += range.count;
  const int end = std::min(blocks * kBlockTokens, request.limit), gain = end - request.matched;
  if (gain > 0 && gain > request.room) return false;  // asked again when there is room
  if (gain > 0 && loads_.size() >= kMostLoads) return true;
  if (gain <= 0 || !tier_->rates().pays_or_retry(gain, static_cast<int>(ranges.size()))) {
    memory.version = tier_->version();
    memory.matched = request.matched;
    return false;
  }
  ++memory.loads;
  return begin(request, ranges, end);
}

bool DiskPrefixes::begin(const LoadRequest& request, const DiskTier::Ranges& ranges, int end) {
  Match match = tree_.match(request.key, {.length = request.matched});
  if (match.length != request.matched) return false;
  Load load;
  load.scope = request.key.scope;
  load.tokens.assign(request.key.tokens.begin(), request.key.tokens.begin() + end);
  load.cursor.follow(match.extents.last_slot(), match.length);
  load.held_before = match.length;
  load.pin = std::move(match.pin);
  load.owners.insert(request.owner);
  load.id = tier_->load(request.key.scope, request.key.tokens, request.matched / kBlockTokens, ranges);
  loads_.push_back(std::move(load));
  return true;
}

std::optional<OwnedSlots> DiskPrefixes::take_slots(int count, SlotCursor& cursor) {
  if (allocator_.free_slots() < count) tree_.evict(count - allocator_.free_slots());
  return allocator_.allocate(count, cursor);
}

void DiskPrefixes::place(Load& load, const DiskTier::Loaded& piece) {
  const int have = load.pin.length(), begin = piece.first_block * kBlockTokens;
  const int end = std::min(begin + piece.blocks * kBlockTokens, static_cast<int>(load.tokens.size()));
  if (end <= have) return;
  auto slots = begin <= have ? take_slots(end - have, load.cursor) : std::nullopt;
  if (!slots) {  // memory is short: the rest is computed when there is room
    tier_->cancel(load.id);
    load.done = true;
    return;
  }
  copier_.copy_in(piece.buffer.bytes(), tier_->block_stride(), have - begin, slots->extents());
  const auto tokens = std::span<const TokenId>(load.tokens).subspan(static_cast<std::size_t>(have));
  const Insertion inserted =
      tree_.extend(load.pin, tokens.first(static_cast<std::size_t>(end - have)), std::move(*slots));
  load.cursor.follow(inserted.extents.last_slot(), end);
  tier_->counters().loaded_tokens.add(static_cast<std::uint64_t>(end - have));
}

void DiskPrefixes::take(const DiskTier::Loaded& piece) {
  const auto load = std::find_if(loads_.begin(), loads_.end(), [&](const Load& l) { return l.id == piece.load; });
  if (load == loads_.end() || load->done) return;
  if (!piece.failed) place(*load, piece);
  load->done = load->done || piece.failed || piece.last;
  if (load->done) load->cursor.reset();
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
    read += load.pin.length() - load.held_before;
    if (!load.owners.empty()) return false;
    tier_->cancel(load.id);
    return true;
  });
  return read;
}

bool DiskPrefixes::give_up() {
  if (loads_.empty()) return false;
  for (const Load& load : loads_) tier_->cancel(load.id);
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
