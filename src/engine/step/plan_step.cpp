// EngineCore: which tokens are next, and slots for them.
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/schedule/branch_order.h"
#include "engine/step/engine_core.h"

namespace espalier {
namespace {

constexpr int kLeastSharedWait = 16;     // shared tokens for which a request waits until another has computed them
constexpr int kLeastSharedPart = 16;     // ... or fewer, when they are this part of what it has to compute
constexpr int kMostLogprobRows = 128;    // rows of one step whose logits are kept for prompt log-probabilities
constexpr int kLeastChunk = 16;          // prompt tokens of a step, however short the wanted latency
constexpr int kMostExamined = 256;       // waiting requests looked at for admission in one step
constexpr int kLeastPlace = 16;          // slots that a sequence that cannot grow where it is finds in one piece ...
constexpr int kMostPlace = 128;          // ... this many in a pool that is
constexpr int kPlaces = 256;             // ... so many times larger
constexpr int kWholeExtent = 512;        // and so many more are freed, so as not to leave a part of an extent
constexpr int kCrumbShare = 8;           // shorter pieces are used up once this part of the pool consists of them
constexpr int kAllPieces = 1 << 20;      // of prefixes that were read from disk
constexpr std::size_t kMostPeeks = 512;  // waiting requests whose cached prefix is looked up again in one step
constexpr std::size_t kAhead = 8;        // sequences lie all over the memory: have the next ones fetched

// Whether the order of admission follows from what the cache holds.
bool sorts_by_prefix(SchedulePolicy policy) {
  return policy == SchedulePolicy::lpm || policy == SchedulePolicy::dfs_weight;
}

int common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end.first - a.begin());
}

}  // namespace

StepPlan EngineCore::plan() {
  StepPlan plan;
  if (disk_) disk_->collect(running_.empty() ? kAllPieces : 1);
  drop_expired();
  if (!pins_.empty()) pins_.drop_expired(now_());
  int prompt_budget = this->prompt_budget();
  plan_running(plan, prompt_budget);
  plan_waiting(plan, prompt_budget);
  take_back_retracted();
  add_drafts(plan, prompt_budget);
  secure_slots(plan);
  compaction_.step(running_);
  return plan;
}

// Under a wanted latency between tokens, as many prompt tokens beside the decoding rows as fit into its time.
int EngineCore::prompt_budget() const {
  if (options_.target_itl <= 0 || !cost_.known()) return options_.prefill_chunk;
  const auto decoding = std::ranges::count_if(running_, [](const auto& s) { return s->decodes(); });
  if (decoding == 0) return options_.prefill_chunk;
  return std::clamp(cost_.rows_within(options_.target_itl) - static_cast<int>(decoding),
                    std::min(kLeastChunk, options_.prefill_chunk), options_.prefill_chunk);
}

// Requests that have waited beyond their deadline end here; those of which a choice has begun may finish.
void EngineCore::drop_expired() {
  if (!any_deadline_) return;
  const auto now = now_();
  std::vector<const Sequence*> expired;
  for (const auto& s : waiting_) {
    const auto& deadline = s->request->fields().deadline;
    if (!deadline || s->channel->begun() || now - s->submitted < *deadline) continue;
    FinishEvent event = finish_event(*s, FinishReason::error);
    event.error = {Error::Kind::timeout, "the request waited longer than its deadline allows", "deadline_ms",
                   "deadline"};
    count_finish(*s, FinishReason::error);
    s->channel->publish({std::move(event)});
    expired.push_back(s.get());
  }
  remove(expired);
}

void EngineCore::take_back_retracted() {
  std::ranges::move(retracted_now_, std::back_inserter(waiting_));
  if (!retracted_now_.empty()) std::ranges::sort(waiting_, {}, &Sequence::arrival);
  retracted_now_.clear();
}

void EngineCore::plan_running(StepPlan& plan, int& prompt_budget) {
  for (const auto& s : running_)
    if (options_.rope_lengths.of(s->known()) != s->rope_length) read_anew(*s);
  std::vector<RunningNeed> needs;
  for (const auto& s : running_) needs.push_back({s->to_compute(), s->generated() > 0});
  const std::vector<int> chunks = running_chunks(needs, prompt_budget);
  int logprob_rows = kMostLogprobRows;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] == 0) continue;
    const int count = cap_for_logprobs(*running_[i], chunks[i], logprob_rows);
    if (needs[i].to_compute > 1) prompt_budget -= count;
    if (count > 0) plan.chunks.push_back({running_[i].get(), count});
  }
}

int EngineCore::cap_for_logprobs(const Sequence& sequence, int count, int& logprob_rows) const {
  if (!sequence.wants_prompt_logprobs()) return count;
  count = std::min(count, logprob_rows);
  logprob_rows -= count;
  return count;
}

std::vector<WaitingView> EngineCore::view_waiting() {
  std::vector<WaitingView> views;
  views.reserve(waiting_.size());
  refresh_peeks();
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (i + kAhead < waiting_.size()) __builtin_prefetch(waiting_[i + kAhead].get());
    views.push_back(waiting_[i]->view);
    if (options_.fair_tenants) views.back().turn = waiting_[i]->share.turn();
  }
  if (options_.policy == SchedulePolicy::dfs_weight && options_.radix_cache) {
    std::vector<NodeHandle> ends;
    for (const auto& s : waiting_) ends.push_back(s->peeked.last.node);
    const std::vector<int> places = branch_order(tree_, ends);
    for (std::size_t i = 0; i < views.size(); ++i) views[i].branch = places[i];
  }
  return views;
}

void EngineCore::peek(Sequence& s) const {
  if (options_.radix_cache) s.view.matched = tree_.peek(s.key(), {.length = s.match_limit()}, &s.peeked).length;
}

// Looks up the cached prefixes of waiting requests again, at most so many a step: the oldest, then the others in turn.
void EngineCore::refresh_peeks() {
  if (!options_.radix_cache || !sorts_by_prefix(options_.policy)) return;
  const std::size_t count = waiting_.size(), all = std::min(count, kMostPeeks);
  auto refresh = [&](Sequence& s) { peek(s); };
  for (std::size_t i = 0; i < all / 2; ++i) {
    __builtin_prefetch(&waiting_[std::min(i + kAhead, count - 1)]->peeked);
    refresh(*waiting_[i]);
  }
  for (std::size_t i = all / 2; i < all; ++i) {
    if (next_peek_ < all / 2 || next_peek_ >= count) next_peek_ = all / 2;
    __builtin_prefetch(&waiting_[std::min(next_peek_ + kAhead, count - 1)]->peeked);
    refresh(*waiting_[next_peek_++]);
  }
}

// Waiting requests whose prefix a running sequence is computing right now stay back until it is there: then they share
// it.
bool EngineCore::prefix_is_being_computed(const Sequence& waiting) {
  if (!options_.radix_cache) return false;
  const auto wanted = std::span<const TokenId>(waiting.tokens).first(static_cast<std::size_t>(waiting.match_limit()));
  const int rest = waiting.known() - waiting.peeked.last.length;
  const int least = std::min(kLeastSharedWait, 1 + rest / kLeastSharedPart);
  auto computes_it = [&](const auto& other) {
    if (other->to_compute() <= 1 || other->scope != waiting.scope) return false;
    const int from = std::max(waiting.peeked.last.length, other->computed);
    if (from + least > static_cast<int>(wanted.size())) return false;
    const int common = common_prefix(wanted, other->tokens);
    return common - from >= least && states_.leaves_for_others(*other, common) - from >= least;
  };
  return std::ranges::any_of(running_, computes_it) || std::ranges::any_of(admitted_now_, computes_it);
}

// More of its prefix lies on disk, and reading it is quicker than computing it: the request waits, others go on.
bool EngineCore::prefix_is_being_read(Sequence& s) {
  if (!disk_) return false;
  DiskPrefixes::LoadRequest load{s.arrival, s.key(), s.match_limit()};
  load.matched = s.peeked.last.length;
  if (!running_.empty() || !admitted_now_.empty())
    load.room = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  return disk_->wait_for(load, s.on_disk);
}

void EngineCore::plan_waiting(StepPlan& plan, int& prompt_budget) {
  if (waiting_.empty() || prompt_budget <= 0 || no_place()) return;
  AdmissionOrder order(options_.policy, view_waiting());
  std::size_t last_admitted = 0;
  int logprob_rows = kMostLogprobRows, examined = 0;
  const Request* staying = nullptr;  // all choices of a request wait for the same
  for (int index; prompt_budget > 0 && (index = order.next()) >= 0;) {
    auto& sequence = waiting_[static_cast<std::size_t>(index)];
    if (sequence->request.get() == staying) continue;
    if (++examined > kMostExamined) break;
    peek(*sequence);
    if (prefix_is_being_computed(*sequence) || prefix_is_being_read(*sequence)) {
      staying = sequence->request.get();
      continue;
    }
    // Memory is short: those behind wait too, or a large request would never run.
    if (!make_room_for(*sequence, plan) || !admit(*sequence)) break;
    const int count = cap_for_logprobs(*sequence, std::min(sequence->to_compute(), prompt_budget), logprob_rows);
    prompt_budget -= count;
    if (count > 0) plan.chunks.push_back({sequence.get(), count});
    last_admitted = std::max(last_admitted, static_cast<std::size_t>(index));
    admitted_now_.push_back(std::move(sequence));
  }
  for (std::size_t i = 0; i < last_admitted; ++i)
    if (waiting_[i]) ++waiting_[i]->view.steps_passed_over;
  std::erase_if(waiting_, [](const auto& s) { return !s; });
  std::ranges::move(admitted_now_, std::back_inserter(running_));
  admitted_now_.clear();
  std::ranges::sort(running_, {}, &Sequence::arrival);
}

// Whoever goes first, nobody can be admitted: then their order need not be known. With a disk tier it must be, since
// prefixes are read while their requests wait.
bool EngineCore::no_place() const {
  const auto gives_way = [](const auto& s) { return s->request->fields().background; };
  return !disk_ && std::cmp_greater_equal(running_.size(), options_.max_running) &&
         std::ranges::none_of(running_, gives_way);
}

// A place in the batch and memory; background work gives up both.
bool EngineCore::make_room_for(const Sequence& s, StepPlan& plan) {
  const auto in_batch = [&] { return static_cast<int>(running_.size() + admitted_now_.size()); };
  if (in_batch() < options_.max_running && fits(s)) return true;
  if (s.request->fields().background) return false;
  for (;;) {
    const auto background =
        std::ranges::find_if(running_, [](const auto& r) { return r->request->fields().background; });
    if (background == running_.end()) return in_batch() < options_.max_running && fits(s);
    put_back(**background, plan, retracted_now_);
    if (in_batch() < options_.max_running && fits(s)) return true;
  }
}

// Guesses ride along with what decodes; they never take room that prompts or other sequences want.
void EngineCore::add_drafts(StepPlan& plan, int budget) {
  const auto constrained = [](const ScheduledChunk& chunk) { return static_cast<bool>(chunk.sequence->text); };
  if (!drafts_.on() && std::ranges::none_of(plan.chunks, constrained)) return;
  const int free = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  int room = std::min({budget, free, windows_.room(running_, admitted_now_)});
  draft_forced(plan, room);
  if (drafts_.on() && plan.decoding_rows() > 0) {  // beside a prompt chunk a row is dear
    std::vector<Sequence*> sequences;
    for (const ScheduledChunk& chunk : plan.chunks)
      if (chunk.sequence->draft.empty() && chunk.count == chunk.sequence->to_compute())
        sequences.push_back(chunk.sequence);
    if (!sequences.empty()) drafts_.propose(sequences, room);
  }
  for (ScheduledChunk& chunk : plan.chunks) {
    Sequence& s = *chunk.sequence;
    if (s.text.busy()) s.draft.clear();
    const std::int64_t alike = options_.rope_lengths.longest_alike(s.known()) - s.known();
    if (std::cmp_greater(s.draft.size(), alike)) s.draft.resize(static_cast<std::size_t>(alike));
    if (s.text && !s.draft.empty()) {
      auto places = s.text.along(s.draft, s.output(), {grammar_queue_, kGrammarWait});
      if (places.ok())
        s.places = std::move(places).value();
      else
        s.draft.clear(), s.places.clear();  // it ends when it goes on
    }
    if (s.draft.empty()) s.draft_is_forced = false;
    chunk.count += static_cast<int>(s.draft.size());
  }
}

// Whether text that must come is appended at once. Where the log-probabilities of its tokens are wanted it is a draft.
bool EngineCore::jumps(const Sequence& s) const {
  return options_.jump_forward && !s.request->fields().logprobs.enabled;
}

// Text that must come, of those who want its tokens' log-probabilities. Penalties would have to count them as they
// come.
void EngineCore::draft_forced(StepPlan& plan, int& room) {
  for (const ScheduledChunk& chunk : plan.chunks) {
    Sequence& s = *chunk.sequence;
    const auto forced = s.text.forced();
    if (!options_.jump_forward || forced.size() < 2 || jumps(s)) continue;
    if (s.to_compute() != chunk.count || s.request->sampling().penalises()) continue;
    const int most = std::min({static_cast<int>(forced.size()) - 1, room, s.remaining_output() - 1, kMostJumped});
    if (most <= 0 || s.known() == s.prompt_tokens()) continue;
    s.draft.assign(forced.begin(), forced.begin() + most);
    s.draft_is_forced = true;
    room -= most;
  }
}

// Tokens that the running sequences will still want: what they have not computed, and what they are expected to say.
int EngineCore::expected_demand() const {
  std::int64_t demand = 0;
  for (const auto* list : {&running_, &admitted_now_})
    for (const auto& s : *list) demand += s->to_compute() + expected_further(*s);
  return static_cast<int>(std::min<std::int64_t>(demand, std::numeric_limits<int>::max()));
}

int EngineCore::expected_further(const Sequence& s) const {
  const int told = s.request->fields().expected_output - s.generated();
  return told > 0 ? std::min(told, s.remaining_output()) : expected_output(s.remaining_output(), ratio_.value());
}

bool EngineCore::fits(const Sequence& s) const {
  if (running_.empty() && admitted_now_.empty()) return true;
  if (states_.room(running_, admitted_now_) < 1) return false;
  const int room = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  return s.known() - s.peeked.last.length + expected_further(s) <= room &&
         windows_.fits(s, {}, running_, admitted_now_);
}

bool EngineCore::admit(Sequence& s) {
  Match match;
  if (options_.radix_cache) match = tree_.match(s.key(), {.length = s.match_limit()});
  // Measured again with the prefix pinned: what it pins is no longer room for others.
  const int room = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  const int need = s.known() - match.length + expected_further(s);
  if (!(running_.empty() && admitted_now_.empty()) && (need > room || states_.room(running_, admitted_now_) < 1 ||
                                                       !windows_.fits(s, match.pin, running_, admitted_now_)))
    return false;

  begin(s, std::move(match));
  if (options_.rope_lengths.of(s.known()) != s.rope_length) read_anew(s);
  return true;
}

void EngineCore::name_scope(Sequence& s) const {
  s.rope_length = options_.rope_lengths.of(s.known());
  s.scope = options_.rope_lengths.scope(s.request->fields().scope, s.rope_length);
}

// It has grown into another class of lengths, under which all of its angles are others.
void EngineCore::read_anew(Sequence& s) {
  release(s);
  s.computed = 0;
  s.drafting.peeked = {};
  name_scope(s);
  Match match;
  if (options_.radix_cache) match = tree_.match(s.key(), {.length = s.match_limit()});
  begin(s, std::move(match));
}

// "salt": without its own name space the request would have found more. That is told of the common one only, whose
// contents anybody can ask about by leaving the salt out.
const char* EngineCore::why_reuse_ended(const Sequence& s, const Match& match) const {
  if (!options_.radix_cache) return "disabled";
  const bool all = match.end == MatchEnd::whole_key || match.end == MatchEnd::limit;
  if (!all && !s.request->fields().scope.empty() &&
      tree_.peek({options_.rope_lengths.scope({}, s.rope_length), s.tokens, {}}, {.length = s.match_limit()}).length >
          match.length)
    return "salt";
  return name(match.end).data();
}

// From waiting to running, on what the cache has of it.
void EngineCore::begin(Sequence& s, Match match) {
  s.computed = match.length;
  s.read_again = 0;
  s.extents_left = 0;
  states_.begin(s, match);
  s.held.begin(std::move(match.pin), std::move(match.extents));
  const int from_disk = disk_ ? disk_->forget(s.arrival) : 0;
  if (std::exchange(s.was_admitted, true)) return;
  s.channel->note_begun();
  s.admitted = now_();
  s.cached_tokens = std::min(match.length, s.prompt_tokens() - 1);
  s.disk_tokens = std::min(from_disk, s.cached_tokens);
  s.cache_end = why_reuse_ended(s, match);
  jump_at_start(s);
  metrics_.queue.observe(seconds_of(s.admitted - s.submitted));
  metrics_.queried_tokens.add(static_cast<std::uint64_t>(s.prompt_tokens()));
  metrics_.cached_tokens.add(static_cast<std::uint64_t>(s.cached_tokens));
  metrics_.disk_hit_tokens.add(static_cast<std::uint64_t>(s.disk_tokens));
}

// A full pool is the ordinary case. Slots freed one by one, as they are wanted, would go to whoever asks next:
// sequences that decode side by side would lie interleaved, every token an extent. So a longer piece is freed at once,
// also when there are short extents enough: these grow together when what lies between them is evicted.
void EngineCore::make_place(const Sequence& s, int count) {
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
bool EngineCore::take_slots(Sequence& s, int count) {
  const int more = s.computed + count - s.held.length();
  if (more <= 0) return true;
  make_place(s, more);
  windows_.make_place(more, running_);
  if (s.held.grow(allocator_, more)) return true;
  const int freed = tree_.evict(more - allocator_.free_slots());
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(freed));
  if (s.held.grow(allocator_, more)) return true;
  return disk_ && disk_->give_up() && take_slots(s, count);
}

// Before it is known how far the chunk will reach; what is left over goes back with what was refused.
bool EngineCore::take_slots_to_guess(Sequence& s, int length) {
  const int more = length - s.held.length();
  if (more <= 0) return true;
  make_place(s, more);
  if (s.held.grow(allocator_, more)) return true;
  metrics_.evicted_tokens.add(static_cast<std::uint64_t>(tree_.evict(more - allocator_.free_slots())));
  return s.held.grow(allocator_, more);
}

// Without a second cell for what might be refused nothing is guessed.
bool EngineCore::take_state(ScheduledChunk& chunk) {
  Sequence& s = *chunk.sequence;
  if (states_.take(s)) return true;
  if (s.draft.empty()) return disk_ && disk_->give_up() && states_.take(s);
  chunk.count -= static_cast<int>(s.draft.size());
  s.draft.clear();
  s.draft_is_forced = false;
  s.held.keep_first(s.computed + chunk.count);
  return states_.take(s) || (disk_ && disk_->give_up() && states_.take(s));
}

// Every chunk of the plan gets its slots; when the pool is full even after eviction, running sequences give up theirs.
void EngineCore::secure_slots(StepPlan& plan) {
  for (std::size_t i = 0; i < plan.chunks.size();) {
    ScheduledChunk& chunk = plan.chunks[i];
    if (take_slots(*chunk.sequence, chunk.count) && take_state(chunk)) {
      ++i;
      continue;
    }
    // Alone, and still no room: pins give way before a request does.
    if (running_.size() == 1 && pins_.give_up_oldest()) continue;
    std::vector<RunningView> views;
    for (const auto& s : running_)
      views.push_back({s->arrival, s->held.tokens_only_its_own(tree_), s->request->fields().priority,
                       s->request->fields().background});
    Sequence& victim = *running_[static_cast<std::size_t>(retraction_victim(views))];
    const auto at = std::find_if(plan.chunks.begin(), plan.chunks.end(),
                                 [&](const ScheduledChunk& c) { return c.sequence == &victim; });
    if (at != plan.chunks.end() && at < plan.chunks.begin() + static_cast<std::ptrdiff_t>(i)) --i;
    retract(victim, plan);
  }
  for (const ScheduledChunk& chunk : plan.chunks) states_.take_marks(*chunk.sequence, chunk.count);
}

void EngineCore::retract(Sequence& victim, StepPlan& plan) {
  std::int64_t generated = 0, allowed = 0;
  for (const auto& s : running_) {
    generated += s->generated();
    allowed += s->request->max_new_tokens();
  }
  ratio_.retracted(generated, allowed, static_cast<int>(running_.size()));
  put_back(victim, plan, waiting_);
}

// A running sequence becomes a waiting one again; what it has computed goes to the tree and may be evicted.
void EngineCore::put_back(Sequence& victim, StepPlan& plan, SequenceList& to) {
  metrics_.preemptions.add();
  metrics_.retracted_tokens.add(static_cast<std::uint64_t>(victim.computed));
  std::erase_if(plan.chunks, [&](const ScheduledChunk& c) { return c.sequence == &victim; });
  release(victim);
  ++victim.retractions;
  victim.computed = 0;
  victim.read_again = 0;
  name_scope(victim);
  victim.draft.clear();
  victim.draft_is_forced = false;
  victim.peeked = victim.drafting.peeked = {};
  victim.view.matched = 0;
  victim.view.output = victim.remaining_output();
  if (!victim.prompt_logprobs_sent) victim.prompt_logprobs = {};
  const auto owner = std::ranges::find_if(running_, [&](const auto& s) { return s.get() == &victim; });
  const auto place = std::ranges::find_if(to, [&](const auto& s) { return s->arrival > victim.arrival; });
  to.insert(place, std::move(*owner));
  running_.erase(owner);
}

}  // namespace espalier
