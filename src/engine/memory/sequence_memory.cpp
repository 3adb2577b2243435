#include "engine/memory/sequence_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

constexpr int kLeastPlace = 16;    // slots that a sequence that cannot grow where it is finds in one piece ...
constexpr int kMostPlace = 128;    // ... this many in a pool that is
constexpr int kPlaces = 256;       // ... so many times larger
constexpr int kWholeExtent = 512;  // and so many more are freed, so as not to leave a part of an extent
constexpr int kCrumbShare = 8;     // shorter pieces are used up once this part of the pool consists of them

}  // namespace

SequenceMemory::SequenceMemory(const CoreOptions& options, int slots, const SequenceLists& sequences,
                               const ExpectedDemand& demand, EngineMetrics& metrics)
    : options_(options),
      sequences_(sequences),
      demand_(demand),
      metrics_(metrics),
      window_slots_(options.window_slots > 0
                        ? std::make_unique<WindowSlots>(slots, options.window_slots, options.window)
                        : nullptr),
      allocator_(slots, window_slots_.get()),
      state_cells_(options.state_cells),
      tree_(allocator_, options.eviction, options.state_cells > 0 ? &state_cells_ : nullptr),
      states_(state_cells_, tree_, options.radix_cache),
      pins_(tree_, slots, options.state_cells),
      windows_(window_slots_.get(), tree_, pins_, options.prefill_chunk + options.longest_span,
               [&demand](const Sequence& s) { return demand.further(s); }) {}

void SequenceMemory::attach(std::unique_ptr<DiskTier> tier, SlotCopier& copier, WindowCopier* windows,
                            bool store_evicted) {
  disk_ = std::make_unique<DiskPrefixes>(std::move(tier), tree_, allocator_, copier, store_evicted);
  if (windows == nullptr) return;
  disk_->keep_windows(*windows, [this](int count) { windows_.make_place(count, sequences_.running); });
  windows_.spare([this](std::vector<WindowUse>& uses) { disk_->add_window_uses(uses); });
}

// --- room ---

int SequenceMemory::room() const {
  return allocator_.free_slots() + tree_.evictable_tokens() - demand_.total();
}

int SequenceMemory::window_room() const {
  return windows_.room(sequences_.running, sequences_.admitted);
}

int SequenceMemory::state_room() const {
  return states_.room(sequences_.running, sequences_.admitted);
}

bool SequenceMemory::fits(const Sequence& s) const {
  if (sequences_.in_batch() == 0) return true;
  return state_room() >= 1 && s.known() - s.peeked.last.length + demand_.further(s) <= room() &&
         windows_.fits(s, {}, sequences_.running, sequences_.admitted);
}

bool SequenceMemory::fits(const Sequence& s, const Match& match) const {
  if (sequences_.in_batch() == 0) return true;
  return s.known() - match.length + demand_.further(s) <= room() && state_room() >= 1 &&
         windows_.fits(s, match.pin, sequences_.running, sequences_.admitted);
}

// --- for a step ---

bool SequenceMemory::take(ScheduledChunk& chunk) {
  return take_slots(*chunk.sequence, chunk.count) && take_state(chunk);
}

// A full pool is the ordinary case. Slots freed one by one, as they are wanted, would go to whoever asks next:
// sequences that decode side by side would lie interleaved, every token an extent. So a longer piece is freed at once,
// also when there are short extents enough: these grow together when what lies between them is evicted.
void SequenceMemory::make_place(const Sequence& s, int count) {
  const int moving = count - s.held.room_in_place(allocator_);
  if (moving <= 0) return;
  const int capacity = allocator_.capacity();
  const int wanted = std::max(moving, std::clamp(capacity / kPlaces, kLeastPlace, kMostPlace));
  if (allocator_.longest_free_run() >= std::min(wanted, kWholeExtent)) return;
  const int plain = allocator_.free_slots() - allocator_.reserved_slots();
  if (plain >= moving + capacity / kCrumbShare) return;
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(tree_.evict(wanted, kWholeExtent)));
}

// For so many tokens behind the computed ones.
bool SequenceMemory::take_slots(Sequence& s, int count) {
  const int more = s.computed + count - s.held.length();
  if (more <= 0) return true;
  make_place(s, more);
  windows_.make_place(more, sequences_.running);
  if (s.held.grow(allocator_, more)) return true;
  const int freed = tree_.evict(more - allocator_.free_slots());
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(freed));
  if (s.held.grow(allocator_, more)) return true;
  return disk_ && disk_->give_up() && take_slots(s, count);
}

bool SequenceMemory::take_slots_to_guess(Sequence& s, int length) {
  const int more = length - s.held.length();
  if (more <= 0) return true;
  make_place(s, more);
  windows_.make_place(more, sequences_.running);
  if (s.held.grow(allocator_, more)) return true;
  if (allocator_.free_slots() >= more) return false;  // of window slots there are too few
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(tree_.evict(more - allocator_.free_slots())));
  return s.held.grow(allocator_, more);
}

// Without a second cell for what might be refused nothing is guessed.
bool SequenceMemory::take_state(ScheduledChunk& chunk) {
  Sequence& s = *chunk.sequence;
  if (states_.take(s)) return true;
  if (s.draft.empty()) return disk_ && disk_->give_up() && states_.take(s);
  chunk.count -= static_cast<int>(s.draft.size());
  s.draft.clear();
  s.draft_is_forced = false;
  s.held.keep_first(s.computed + chunk.count);
  return states_.take(s) || (disk_ && disk_->give_up() && states_.take(s));
}

int SequenceMemory::bring(const CacheKey& key) {
  Match match = tree_.match(key);
  const int missing = static_cast<int>(key.tokens.size()) - match.length;
  if (missing <= 0) return match.length;
  if (const int short_of = missing - allocator_.free_slots(); short_of > 0)
    metrics_.evicted_tokens.add(static_cast<std::uint64_t>(tree_.evict(short_of)));
  SlotCursor cursor;
  cursor.follow(match.length > 0 ? match.extents.slot_at(match.length - 1) : -1, match.length);
  auto slots = allocator_.allocate(missing, cursor);
  if (!slots) return match.length;
  tree_.extend(match.pin, key.tokens.subspan(static_cast<std::size_t>(match.length)), std::move(*slots), key.whole);
  return static_cast<int>(key.tokens.size());
}

// --- looking from outside ---

void SequenceMemory::clear() {
  pins_.clear();
  if (disk_)
    disk_->clear();
  else
    tree_.evict_all();
  if (events_ && tree_.held_tokens() == 0) events_->cleared();
}

void SequenceMemory::watch() {
  events_ = std::make_unique<CacheEvents>();
  tree_.watcher = events_.get();
  if (disk_) disk_->tier().watch(*events_);
}

void SequenceMemory::report(EngineStatus& status) const {
  status.pool_tokens = allocator_.capacity();
  status.free_tokens = allocator_.free_slots();
  status.cached_tokens = tree_.held_tokens();
  status.window_tokens = window_slots_ ? window_slots_->pool().capacity() : 0;
  status.free_window_tokens = window_slots_ ? window_slots_->pool().free_slots() : 0;
  status.state_cells = state_cells_.capacity();
  status.free_state_cells = state_cells_.free();
  status.snapshots = static_cast<int>(tree_.statistics().states);
  status.awaiting = disk_ ? disk_->awaiting() : 0;
  status.pinned_tokens = tree_.held_tokens() - tree_.evictable_tokens();
}

Result<> SequenceMemory::check() const {
  ESP_CHECK(allocator_.check());
  ESP_CHECK(tree_.check());
  ESP_CHECK(check_states());
  ESP_CHECK(windows_.check(sequences_.running));
  return check_slots();
}

// Every slot in use is the tree's or a running sequence's.
Result<> SequenceMemory::check_slots() const {
  int owned = 0;
  for (const auto& s : sequences_.running) {
    owned += s->held.own_length();
    if (s->computed > s->known() || s->held.length() < s->computed)
      return internal_error("sequence " + s->request->id() + " has computed more tokens than it has slots");
  }
  for (const auto& s : sequences_.waiting)
    if (s->held.own_length() > 0 || s->held.in_tree() || s->state.now)
      return internal_error("waiting sequence " + s->request->id() + " holds slots");
  const int held = tree_.held_tokens() + owned;
  if (held != allocator_.used_slots())
    return internal_error("tree and sequences hold " + std::to_string(held) + " slots, but " +
                          std::to_string(allocator_.used_slots()) + " are in use");
  return success();
}

// Every share of a cell is the tree's, a sequence's, a pin's or a load's.
Result<> SequenceMemory::check_states() const {
  std::vector<int> shares(static_cast<std::size_t>(state_cells_.capacity()));
  const auto count = [&](const StateCell& cell) {
    if (cell) ++shares[static_cast<std::size_t>(cell.index())];
  };
  for (const auto& snapshot : tree_.states()) ++shares[static_cast<std::size_t>(snapshot.cell)];
  for (const auto& s : sequences_.running) {
    count(s->state.now);
    count(s->state.next);
    for (const auto& mark : s->state.marks) count(mark.cell);
    if (states_.on() && (s->computed > 0) != static_cast<bool>(s->state.now))
      return internal_error(fmt::format("sequence {} has computed {} tokens and has {} state", s->request->id(),
                                        s->computed, s->state.now ? "a" : "no"));
  }
  pins_.for_each_state(count);
  if (disk_) disk_->for_each_state(count);
  for (int cell = 0; cell < state_cells_.capacity(); ++cell)
    if (shares[static_cast<std::size_t>(cell)] != state_cells_.shares(cell))
      return internal_error(fmt::format("state cell {} has {} shares, {} are known", cell, state_cells_.shares(cell),
                                        shares[static_cast<std::size_t>(cell)]));
  return success();
}

}  // namespace espalier
