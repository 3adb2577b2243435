#include "engine/schedule/admission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/schedule/branch_order.h"
#include "engine/step/logprob_rows.h"

namespace espalier {
namespace {

constexpr int kLeastSharedWait = 16;     // shared tokens for which a request waits until another has computed them
constexpr int kLeastSharedPart = 16;     // ... or fewer, when they are this part of what it has to compute
constexpr int kMostExamined = 256;       // waiting requests looked at for admission in one step
constexpr std::size_t kMostPeeks = 512;  // waiting requests whose cached prefix is looked up again in one step
constexpr std::size_t kAhead = 8;        // sequences lie all over the memory: have the next ones fetched

// Whether the order of admission follows from what the cache holds.
bool sorts_by_prefix(SchedulePolicy policy) {
  return policy == SchedulePolicy::lpm || policy == SchedulePolicy::dfs_weight;
}

bool is_background(const std::unique_ptr<Sequence>& s) {
  return s->request->fields().background;
}

int tokens_in_common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end.first - a.begin());
}

}  // namespace

void Admission::admit(StepPlan& plan, int& prompt_budget) {
  auto& waiting = sequences_.waiting;
  if (waiting.empty() || prompt_budget <= 0 || nobody_finds_a_place()) return;
  AdmissionOrder order(options_.policy, views());
  std::size_t last_admitted = 0;
  int examined = 0;
  LogprobRows logprob_rows;
  const Request* staying = nullptr;  // all choices of a request wait for the same
  for (int index; prompt_budget > 0 && (index = order.next()) >= 0;) {
    auto& sequence = waiting[static_cast<std::size_t>(index)];
    if (sequence->request.get() == staying) continue;
    if (++examined > kMostExamined) break;
    peek(*sequence);
    if (is_being_computed(*sequence) || is_being_read(*sequence) || is_being_seen(*sequence)) {
      staying = sequence->request.get();
      continue;
    }
    if (adapter_waits(*sequence)) {
      // One that has waited long goes next: nobody else begins until an adapter has left.
      if (sequence->view.steps_passed_over >= kAgeingBound) break;
      staying = sequence->request.get();
      continue;
    }
    // Memory is short: those behind wait too, or a large request would never run.
    if (!make_room(*sequence, plan) || !begin(*sequence)) break;
    const int count =
        sequence->chunk_within(logprob_rows.cap(*sequence, std::min(sequence->to_compute(), prompt_budget)));
    prompt_budget -= count;
    if (count > 0) plan.chunks.push_back({sequence.get(), count});
    last_admitted = std::max(last_admitted, static_cast<std::size_t>(index));
    sequences_.admitted.push_back(std::move(sequence));
  }
  age(last_admitted);
  std::erase_if(waiting, [](const auto& s) { return !s; });
  sequences_.start_admitted();
}

// Those before the last that was admitted were passed over, if they still wait.
void Admission::age(std::size_t last_admitted) {
  for (std::size_t i = 0; i < last_admitted; ++i)
    if (sequences_.waiting[i]) ++sequences_.waiting[i]->view.steps_passed_over;
}

// Whoever goes first, nobody can be admitted: then their order need not be known. With a disk tier it must be, since
// prefixes are read while their requests wait.
bool Admission::nobody_finds_a_place() const {
  return memory_.disk() == nullptr && std::cmp_greater_equal(sequences_.running.size(), options_.max_running) &&
         std::ranges::none_of(sequences_.running, is_background);
}

std::vector<WaitingView> Admission::views() {
  const auto& waiting = sequences_.waiting;
  std::vector<WaitingView> views;
  views.reserve(waiting.size());
  refresh_peeks();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (i + kAhead < waiting.size()) __builtin_prefetch(waiting[i + kAhead].get());
    views.push_back(waiting[i]->view);
    if (options_.fair_tenants) views.back().turn = waiting[i]->share.turn();
  }
  if (options_.policy == SchedulePolicy::dfs_weight && memory_.shares_prefixes()) {
    std::vector<NodeHandle> ends;
    for (const auto& s : waiting) ends.push_back(s->peeked.last.node);
    const std::vector<int> places = branch_order(memory_.tree(), ends);
    for (std::size_t i = 0; i < views.size(); ++i) views[i].branch = places[i];
  }
  return views;
}

void Admission::peek(Sequence& s) {
  if (!memory_.shares_prefixes()) return;
  s.view.matched = std::as_const(memory_).tree().peek(s.key(), {.length = s.match_limit()}, &s.peeked).length;
}

// Looks up the cached prefixes of waiting requests again, at most so many a step: the oldest, then the others in turn.
void Admission::refresh_peeks() {
  if (!memory_.shares_prefixes() || !sorts_by_prefix(options_.policy)) return;
  const auto& waiting = sequences_.waiting;
  const std::size_t count = waiting.size(), all = std::min(count, kMostPeeks);
  for (std::size_t i = 0; i < all / 2; ++i) {
    __builtin_prefetch(&waiting[std::min(i + kAhead, count - 1)]->peeked);
    peek(*waiting[i]);
  }
  for (std::size_t i = all / 2; i < all; ++i) {
    if (next_peek_ < all / 2 || next_peek_ >= count) next_peek_ = all / 2;
    __builtin_prefetch(&waiting[std::min(next_peek_ + kAhead, count - 1)]->peeked);
    peek(*waiting[next_peek_++]);
  }
}

// Waiting requests whose prefix a running sequence is computing right now stay back until it is there: then they share
// it.
bool Admission::is_being_computed(const Sequence& waiting) {
  if (!memory_.shares_prefixes()) return false;
  const auto wanted = std::span<const TokenId>(waiting.tokens).first(static_cast<std::size_t>(waiting.match_limit()));
  const int rest = waiting.known() - waiting.peeked.last.length;
  const int least = std::min(kLeastSharedWait, 1 + rest / kLeastSharedPart);
  auto computes_it = [&](const auto& other) {
    if (other->to_compute() <= 1 || other->scope != waiting.scope) return false;
    const int from = std::max(waiting.peeked.last.length, other->computed);
    if (from + least > static_cast<int>(wanted.size())) return false;
    const int common = tokens_in_common(wanted, other->tokens);
    return common - from >= least && memory_.states().leaves_for_others(*other, common) - from >= least;
  };
  return std::ranges::any_of(sequences_.running, computes_it) || std::ranges::any_of(sequences_.admitted, computes_it);
}

// More of its prefix lies on disk, and reading it is quicker than computing it: the request waits, others go on.
bool Admission::is_being_read(Sequence& s) {
  if (memory_.disk() == nullptr) return false;
  DiskPrefixes::LoadRequest load{s.arrival, s.key(), s.match_limit()};
  load.matched = s.peeked.last.length;
  if (sequences_.in_batch() > 0) load.room = memory_.room();
  if (const auto& handoff = s.request->fields().handoff) load.handoff = &*handoff;
  return memory_.disk()->wait_for(load, s.on_disk);
}

// The tower has not seen all of its pictures that are to be computed: it waits for that, others go on.
bool Admission::is_being_seen(Sequence& s) {
  TowerQueue* const towers = reuse_.towers();
  if (towers == nullptr || !s.pictures) return false;
  if (!s.pictures.begun()) {
    if (!towers->has_room()) return true;
    s.pictures.begin(*towers, s.peeked.last.length);
  }
  s.pictures.passed(s.peeked.last.length);
  return !s.pictures.ready();
}

// As many adapters as may be are in the batch, and its own is not among them.
bool Admission::adapter_waits(const Sequence& waiting) const {
  const LoraAdapter* const wanted = waiting.request->fields().adapter.get();
  if (options_.max_adapters == 0 || wanted == nullptr) return false;
  std::set<const LoraAdapter*> in_batch;
  for (const auto* list : {&sequences_.running, &sequences_.admitted})
    for (const auto& s : *list)
      if (const LoraAdapter* adapter = s->request->fields().adapter.get()) in_batch.insert(adapter);
  return !in_batch.contains(wanted) && std::cmp_greater_equal(in_batch.size(), options_.max_adapters);
}

bool Admission::has_room(const Sequence& s) const {
  return sequences_.in_batch() < options_.max_running && memory_.fits(s);
}

// A place in the batch and memory; background work gives up both.
bool Admission::make_room(const Sequence& s, StepPlan& plan) {
  if (has_room(s)) return true;
  if (s.request->fields().background) return false;
  for (;;) {
    const auto background = std::ranges::find_if(sequences_.running, is_background);
    if (background == sequences_.running.end()) return has_room(s);
    retraction_.put_back(**background, plan, sequences_.retracted);
    if (has_room(s)) return true;
  }
}

bool Admission::begin(Sequence& s) {
  Match match = reuse_.find(s);
  if (!memory_.fits(s, match)) return false;
  reuse_.begin(s, std::move(match));
  reuse_.read_anew_if_longer(s);
  return true;
}

}  // namespace espalier
