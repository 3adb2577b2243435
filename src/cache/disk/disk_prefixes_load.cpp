#include <algorithm>
#include <utility>

#include "cache/disk/disk_prefixes.h"
#include "cache/tree/token_compare.h"

namespace espalier {
namespace {

constexpr std::size_t kMostLoads = 4;    // at the same time; more requests wait for their turn
constexpr std::size_t kMostPulls = 128;  // likewise, where others compute prompts: most of them wait for those
constexpr int kMostTries = 3;            // loads for one request: a disk that keeps failing must not hold it
constexpr int kLeastShared = 16;         // tokens for which a request waits for another's load

int blocks_of_tokens(int tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

}  // namespace

// A load that brings this request more than the tree has now.
DiskPrefixes::Load* DiskPrefixes::load_for(const LoadRequest& request) {
  for (Load& load : loads_) {
    if (load.scope != request.key.scope) continue;
    const int most = std::min(request.limit, static_cast<int>(load.tokens.size()));
    const int same = common_prefix(request.key.tokens.data(), load.tokens.data(), most);
    int brings = load.done ? std::min(same, load.pin.length()) : same;
    const bool of_all = load.state || !load.windows.empty();  // what it brings beside tokens stands behind all of them
    if (of_all && same < static_cast<int>(load.tokens.size())) brings = 0;
    if (load.owners.contains(request.owner) || brings - request.matched >= kLeastShared) return &load;
  }
  return nullptr;
}

bool DiskPrefixes::wait_for(const LoadRequest& request, DiskMemory& memory) {
  if (Load* load = load_for(request)) {
    load->owners.insert(request.owner);
    return !load->done;
  }
  if ((!tier_->on() && !fleet_.may_have_some()) || memory.loads >= kMostTries) return false;
  if (fleet_.is_asking(request.owner)) return true;
  if (memory.version == tier_->catalogue().version() && memory.matched == request.matched) return false;
  Plan plan = tree_.cells() != nullptr ? plan_to_state(request) : plan_of(request);
  switch (fleet_.ask(request.owner, request.handoff, request.key, std::max(plan.end, plan.held), request.limit,
                     memory.asked)) {
    case Fleet::Answer::waits:
      return true;
    case Fleet::Answer::planned:
      plan = plan_of(request);
      break;
    case Fleet::Answer::nothing:
      break;
  }
  const int gain = plan.end - request.matched;
  const int slots = windows_ ? plan.end - plan.held : gain;
  if (gain > 0 && slots > request.room) return false;  // asked again when there is room
  if (gain > 0 && loads_.size() >= (fleet_.pulls() ? kMostPulls : kMostLoads)) return true;
  if (gain <= 0 || !pays(plan, gain)) {
    memory.version = tier_->catalogue().version();
    memory.matched = request.matched;
    return false;
  }
  ++memory.loads;
  return begin(request, plan);
}

// What others have was weighed when they answered; the rest of the plan is from disk, or in memory.
bool DiskPrefixes::pays(const Plan& plan, int gain) {
  int files = 0, blocks = 0;
  for (const auto& range : plan.tokens) {
    if (tier_->catalogue().file(range.file)->foreign == nullptr) continue;
    ++files;
    blocks += range.count;
  }
  if (files == plan.files() || in_host_memory(plan)) return true;
  return tier_->rates().pays_or_retry(gain, plan.files() - files, plan.tokens_read() - blocks * kBlockTokens);
}

bool DiskPrefixes::in_host_memory(const Plan& plan) const {
  return tier_->in_host_memory(plan.tokens) && tier_->in_host_memory(plan.state) &&
         std::ranges::all_of(plan.windows, [&](const auto& read) { return tier_->in_host_memory(read.ranges); });
}

int DiskPrefixes::Plan::tokens_read() const {
  int blocks = 0;
  for (const auto* ranges : {&tokens, &state})
    for (const auto& range : *ranges) blocks += range.count;
  for (const auto& read : windows)
    for (const auto& range : read.ranges) blocks += range.count;
  return blocks * kBlockTokens;
}

int DiskPrefixes::Plan::files() const {
  std::size_t files = tokens.size() + state.size();
  for (const auto& read : windows) files += read.ranges.size();
  return static_cast<int>(files);
}

void DiskPrefixes::Plan::keep_tokens(int count) {
  int left = blocks_of_tokens(count) - from;
  for (auto& range : tokens) {
    range.count = std::clamp(left, 0, range.count);
    left -= range.count;
  }
  std::erase_if(tokens, [](const auto& range) { return range.count == 0; });
}

bool DiskPrefixes::Load::has(DiskTier::LoadId load) const {
  return load == id || load == tokens_id ||
         std::ranges::find(windows, load, &DiskWindows::Reading::load) != windows.end();
}

DiskPrefixes::Plan DiskPrefixes::plan_of(const LoadRequest& request) const {
  const int usable =
      std::min(static_cast<int>(request.key.tokens.size()), blocks_of_tokens(request.limit) * kBlockTokens);
  const auto tokens = request.key.tokens.first(static_cast<std::size_t>(std::max(usable, 0)));
  Plan plan;
  plan.held =
      windows_ ? tree_.peek(request.key, {.length = request.limit, .with_window = false}).length : request.matched;
  plan.from = plan.held / kBlockTokens;
  plan.tokens = tier_->find(request.key.scope, tokens, plan.from);
  plan.end = std::min(plan.from * kBlockTokens + plan.tokens_read(), request.limit);
  if (windows_) add_windows(request, plan);
  return plan;
}

// Cuts the plan to where all is there that the next row reads.
void DiskPrefixes::add_windows(const LoadRequest& request, Plan& plan) const {
  ExtentList held;
  const Peek peek = tree_.peek(request.key, {.length = plan.held, .with_window = false});
  if (peek.length > 0) held = tree_path(tree_, peek.node, peek.length, 0).slots;
  DiskWindows::Plan windows =
      windows_->plan(request.key.scope, request.key.tokens, held, std::max(plan.end, plan.held));
  plan.end = windows.end;
  plan.windows = std::move(windows.reads);
  plan.keep_tokens(plan.end > plan.held ? plan.end : 0);
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
  const int held = with_state ? plan.end : std::min(plan.held, plan.end);
  Match match = tree_.match(request.key, {.length = held, .with_state = false, .with_window = false});
  if (with_state ? match.length < plan.from * kBlockTokens : match.length != held) return false;
  Load load;
  if (with_state) {
    const std::uint64_t planned = tier_->catalogue().version();
    load.state = tree_.cells()->take();
    if (!load.state && tree_.evict_states(1) > 0) load.state = tree_.cells()->take();
    // What left the tree may have gone to disk, and files of the plan may have made room for it: it is planned anew.
    if (!load.state || tier_->catalogue().version() != planned) return false;
  }
  load.scope = request.key.scope;
  load.tokens.assign(request.key.tokens.begin(), request.key.tokens.begin() + plan.end);
  load.cursor.follow(match.extents.last_slot(), match.length);
  load.held_before = request.matched;
  load.pin = std::move(match.pin);
  load.owners.insert(request.owner);
  if (!plan.tokens.empty()) load.id = tier_->load(request.key.scope, request.key.tokens, plan.from, plan.tokens);
  for (const auto& read : plan.windows) {
    if (load.windows.empty()) load.tokens_id = load.id;
    load.windows.push_back(windows_->load(request.key.scope, request.key.tokens, read));
    load.id = load.windows.back().load;
  }
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
  copier_.begin_copy_in(blocks, tier_->block_stride(), have - begin, slots->extents());
  const auto tokens = std::span<const TokenId>(load.tokens).subspan(static_cast<std::size_t>(have));
  const Insertion inserted =
      tree_.extend(load.pin, tokens.first(static_cast<std::size_t>(end - have)), std::move(*slots));
  load.cursor.follow(inserted.extents.last_slot(), end);
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
  const auto from = static_cast<std::size_t>(block - blocks.bytes_from()) * stride;
  copier_.copy_state_in(load.state.index(), from, bytes.first(std::min(bytes.size(), copier_.state_bytes() - from)));
  if (!piece.last) return true;
  if (load.pin.length() != end) return false;
  tree_.leave_state(load.pin, end, load.state.share());
  return true;
}

// A piece of a group; the last one puts it into the window slots of the tokens, which came before.
bool DiskPrefixes::place_window(Load& load, const DiskTier::Loaded& piece) {
  const auto reading = std::ranges::find(load.windows, piece.load, &DiskWindows::Reading::load);
  windows_->take(*reading, piece);
  if (!piece.last) return true;
  const int end = static_cast<int>(load.tokens.size()), begin = reading->group.begin();
  if (load.pin.length() != end) return false;
  const int count = std::min(reading->group.end * kBlockTokens, end) - begin;
  const bool placed = windows_->place(*reading, tree_.extents(load.pin).slice(begin, count));
  tree_.window_slots_came();
  return placed;
}

// Where memory is short the rest is computed when there is room.
void DiskPrefixes::take(const DiskTier::Loaded& piece) {
  const auto load = std::ranges::find_if(loads_, [&](const Load& l) { return l.has(piece.load); });
  if (load == loads_.end() || load->done) return;
  const bool of_state = load->state && piece.load == load->id;
  const bool of_window = !of_state && !load->windows.empty() && piece.load != load->tokens_id;
  const int end = std::min((piece.first_block + piece.blocks) * kBlockTokens, static_cast<int>(load->tokens.size()));
  const int before = load->pin.length();
  const bool placed = !piece.failed && (of_state    ? place_state(*load, piece)
                                        : of_window ? place_window(*load, piece)
                                                    : place(*load, piece.buffer.bytes(), piece.first_block, end));
  const auto came = static_cast<std::uint64_t>(load->pin.length() - before);
  if (!piece.foreign) tier_->counters().loaded_tokens.add(came);
  if (!placed) stop(*load);
  load->done = load->done || !placed || (piece.last && piece.load == load->id);
  if (load->done) load->cursor.reset();
}

void DiskPrefixes::stop(const Load& load) {
  tier_->cancel(load.id);
  tier_->cancel(load.tokens_id);
  for (const auto& reading : load.windows) tier_->cancel(reading.load);
}

void DiskPrefixes::add_window_uses(std::vector<WindowUse>& to) const {
  if (!windows_) return;
  for (const Load& load : loads_) to.push_back({&load.pin, windows_->first_read(static_cast<int>(load.tokens.size()))});
}

void DiskPrefixes::collect(int most_pieces) {
  settle_copies();
  fleet_.give_pulled(most_pieces);
  for (DiskTier::Loaded& piece : tier_->collect()) arrived_.push_back(std::move(piece));
  for (; most_pieces > 0 && !arrived_.empty(); --most_pieces) {
    take(arrived_.front());
    if (!copier_.settled()) copied_from_.push_back(std::move(arrived_.front().buffer));
    arrived_.pop_front();  // the reading thread may wait for its buffer
  }
  fleet_.collect(most_pieces);
}

int DiskPrefixes::awaiting() const {
  int requests = fleet_.asking();
  for (const Load& load : loads_)
    if (!load.done) requests += static_cast<int>(load.owners.size());
  return requests;
}

int DiskPrefixes::forget(std::uint64_t owner) {
  int read = 0;
  fleet_.forget(owner);
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

}  // namespace espalier
