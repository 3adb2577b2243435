#include "engine/engine_core.h"

#include <algorithm>
#include <limits>

namespace espalier {
namespace {

constexpr int kLeastSharedWait = 16;   // shared tokens for which a request waits until another has computed them
constexpr int kMostLogprobRows = 128;  // rows of one step whose logits are kept for prompt log-probabilities

double seconds(Sequence::Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

int common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end.first - a.begin());
}

}  // namespace

EngineCore::EngineCore(CoreOptions options, StepRunner& runner, int slots, EngineMetrics& metrics, Now now)
    : options_(std::move(options)),
      runner_(runner),
      metrics_(metrics),
      now_(std::move(now)),
      allocator_(slots),
      tree_(allocator_),
      ratio_(options_.conservativeness),
      drafts_(options_.drafts, tree_, options_.forced_drafts) {}

void EngineCore::add(const Arrival& arrival) {
  const auto now = now_();
  metrics_.requests.add();
  metrics_.prompt_tokens.add(arrival.request->prompt().size());
  metrics_.request_prompt_tokens.observe(static_cast<double>(arrival.request->prompt().size()));
  for (int choice = 0; choice < arrival.request->sampling().n; ++choice) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = arrival.request;
    sequence->channel = arrival.channel;
    sequence->choice = choice;
    sequence->arrival = arrivals_++;
    sequence->tokens = arrival.request->prompt();
    sequence->submitted = now;
    if (arrival.request->sampling().penalises()) sequence->counts.add_prompt(arrival.request->prompt());
    waiting_.push_back(std::move(sequence));
  }
}

bool EngineCore::step() {
  StepPlan next = plan();
  if (next.empty()) return false;
  const auto start = now_();
  choose_rows(next);
  const int rows = next.decoding_rows();
  commit(next, runner_.run(next));
  if (rows > 0) drafts_.observe(rows, seconds(now_() - start));
  ratio_.step();
  ++steps_;
  metrics_.steps.add();
  metrics_.step.observe(seconds(now_() - start));
  return true;
}

// --- plan: which tokens are next, and slots for them ---

StepPlan EngineCore::plan() {
  StepPlan plan;
  int prompt_budget = options_.prefill_chunk;
  plan_running(plan, prompt_budget);
  plan_waiting(plan, prompt_budget);
  if (drafts_.on()) add_drafts(plan, prompt_budget);
  secure_slots(plan);
  return plan;
}

void EngineCore::plan_running(StepPlan& plan, int& prompt_budget) {
  std::vector<int> to_compute;
  for (const auto& sequence : running_) to_compute.push_back(sequence->to_compute());
  const std::vector<int> chunks = running_chunks(to_compute, prompt_budget);
  int logprob_rows = kMostLogprobRows;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] == 0) continue;
    const int count = cap_for_logprobs(*running_[i], chunks[i], logprob_rows);
    if (to_compute[i] > 1) prompt_budget -= count;
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
  for (const auto& s : waiting_) {
    int matched = 0;
    if (options_.radix_cache) matched = tree_.peek(s->key(), {.length = s->match_limit()}, &s->peeked).length;
    views.push_back({s->arrival, matched, s->steps_passed_over});
  }
  return views;
}

// Waiting requests whose prefix a running sequence is computing right now stay back until it is there: then they share
// it.
bool EngineCore::prefix_is_being_computed(const Sequence& waiting) const {
  if (!options_.radix_cache) return false;
  const auto wanted = std::span<const TokenId>(waiting.tokens).first(static_cast<std::size_t>(waiting.match_limit()));
  for (const auto& other : running_) {
    if (other->to_compute() <= 1 || other->request->fields().scope != waiting.request->fields().scope) continue;
    if (common_prefix(wanted, other->tokens) - std::max(waiting.peeked.last.length, other->computed) >=
        kLeastSharedWait)
      return true;
  }
  return false;
}

void EngineCore::plan_waiting(StepPlan& plan, int& prompt_budget) {
  if (waiting_.empty() || prompt_budget <= 0 || static_cast<int>(running_.size()) >= options_.max_running) return;
  const std::vector<int> order = admission_order(options_.policy, view_waiting());
  std::vector<bool> admitted(waiting_.size());
  std::size_t last_admitted = 0;
  int logprob_rows = kMostLogprobRows;
  for (int index : order) {
    if (prompt_budget <= 0 || static_cast<int>(running_.size()) >= options_.max_running) break;
    auto& sequence = waiting_[static_cast<std::size_t>(index)];
    if (prefix_is_being_computed(*sequence)) continue;
    if (!admit(*sequence)) break;  // memory is short: those behind wait too, or a large request would never run
    const int count = cap_for_logprobs(*sequence, std::min(sequence->to_compute(), prompt_budget), logprob_rows);
    prompt_budget -= count;
    if (count > 0) plan.chunks.push_back({sequence.get(), count});
    admitted[static_cast<std::size_t>(index)] = true;
    last_admitted = std::max(last_admitted, static_cast<std::size_t>(index));
    running_.push_back(std::move(sequence));
  }
  for (std::size_t i = 0; i < last_admitted; ++i)
    if (waiting_[i]) ++waiting_[i]->steps_passed_over;
  std::erase_if(waiting_, [](const auto& s) { return !s; });
  std::sort(running_.begin(), running_.end(), [](const auto& a, const auto& b) { return a->arrival < b->arrival; });
}

// Guesses ride along with what decodes; they never take room that prompts or other sequences want.
void EngineCore::add_drafts(StepPlan& plan, int budget) {
  const int rows = plan.decoding_rows();
  if (rows == 0) return;  // beside a prompt chunk a row is dear
  int free = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  for (ScheduledChunk& chunk : plan.chunks) {
    chunk.sequence->draft = drafts_.propose(*chunk.sequence, std::min(budget, free), rows);
    const int count = static_cast<int>(chunk.sequence->draft.size());
    chunk.count += count;
    budget -= count;
    free -= count;
  }
}

// Tokens that the running sequences will still want: what they have not computed, and what they are expected to say.
int EngineCore::expected_demand() const {
  std::int64_t demand = 0;
  for (const auto& s : running_) demand += s->to_compute() + expected_output(s->remaining_output(), ratio_.value());
  return static_cast<int>(std::min<std::int64_t>(demand, std::numeric_limits<int>::max()));
}

bool EngineCore::admit(Sequence& s) {
  Match match;
  if (options_.radix_cache) match = tree_.match(s.key(), {.length = s.match_limit()});
  const int room = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  const int need = s.known() - match.length + expected_output(s.remaining_output(), ratio_.value());
  if (!running_.empty() && need > room) return false;

  s.computed = match.length;
  s.shared = std::move(match.extents);
  s.prefix = std::move(match.pin);
  s.cursor.follow(s.shared.last_slot(), s.computed);
  if (s.was_admitted) return true;
  s.was_admitted = true;
  s.admitted = now_();
  s.cached_tokens = std::min(match.length, s.prompt_tokens());
  s.cache_end = options_.radix_cache ? name(match.end).data() : "disabled";
  metrics_.queue.observe(seconds(s.admitted - s.submitted));
  metrics_.queried_tokens.add(static_cast<std::uint64_t>(s.prompt_tokens()));
  metrics_.cached_tokens.add(static_cast<std::uint64_t>(s.cached_tokens));
  return true;
}

bool EngineCore::take_slots(Sequence& s, int count) {
  auto slots = allocator_.allocate(count, s.cursor);
  if (!slots) {
    const int freed = tree_.evict(count - allocator_.free_slots());
    metrics_.evicted_tokens.add(static_cast<std::uint64_t>(freed));
    slots = allocator_.allocate(count, s.cursor);
  }
  if (!slots) return false;
  s.own.append(std::move(*slots));
  return true;
}

// Every chunk of the plan gets its slots; when the pool is full even after eviction, running sequences give up theirs.
void EngineCore::secure_slots(StepPlan& plan) {
  for (std::size_t i = 0; i < plan.chunks.size();) {
    const ScheduledChunk chunk = plan.chunks[i];
    if (take_slots(*chunk.sequence, chunk.count)) {
      ++i;
      continue;
    }
    std::vector<RunningView> views;
    for (const auto& s : running_) views.push_back({s->arrival, s->generated(), s->prompt_tokens()});
    Sequence& victim = *running_[static_cast<std::size_t>(retraction_victim(views))];
    const auto at = std::find_if(plan.chunks.begin(), plan.chunks.end(),
                                 [&](const ScheduledChunk& c) { return c.sequence == &victim; });
    if (at != plan.chunks.end() && at < plan.chunks.begin() + static_cast<std::ptrdiff_t>(i)) --i;
    retract(victim, plan);
  }
}

void EngineCore::retract(Sequence& victim, StepPlan& plan) {
  std::int64_t generated = 0, allowed = 0;
  for (const auto& s : running_) {
    generated += s->generated();
    allowed += s->request->max_new_tokens();
  }
  ratio_.retracted(generated, allowed, static_cast<int>(running_.size()));
  metrics_.preemptions.add();
  metrics_.retracted_tokens.add(static_cast<std::uint64_t>(victim.computed));

  std::erase_if(plan.chunks, [&](const ScheduledChunk& c) { return c.sequence == &victim; });
  release(victim);
  ++victim.retractions;
  victim.computed = 0;
  victim.draft.clear();
  victim.peeked = {};
  if (!victim.prompt_logprobs_sent) victim.prompt_logprobs = {};
  const auto owner = std::find_if(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == &victim; });
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& s) { return s->arrival > victim.arrival; });
  waiting_.insert(place, std::move(*owner));
  running_.erase(owner);
}

// Which rows' logits are wanted: those whose successor is asked for.
void EngineCore::choose_rows(StepPlan& plan) const {
  int tokens = 0;
  for (const auto& [s, count] : plan.chunks) {
    tokens += count;
    const int logprobs_from = s->wants_prompt_logprobs() ? std::max(1, s->request->fields().logprobs.prompt_start) - 1
                                                         : std::numeric_limits<int>::max();
    const int end = s->computed + count;
    for (int position = std::max(s->computed, std::min(logprobs_from, s->known() - 1)); position < end; ++position) {
      const bool predicts_prompt = position >= logprobs_from && position + 1 < s->prompt_tokens();
      const bool predicts_next = position + 1 >= s->known() && s->remaining_output() > 0;
      if (predicts_prompt || predicts_next) plan.rows.push_back({s, position});
    }
  }
  metrics_.computed_tokens.add(static_cast<std::uint64_t>(tokens));
  metrics_.batch_size.observe(static_cast<double>(plan.chunks.size()));
}

// --- commit: what follows from the results ---

void EngineCore::commit(const StepPlan& plan, std::vector<Outcome> outcomes) {
  std::size_t row = 0;
  std::vector<const Sequence*> done;
  for (const auto& [s, count] : plan.chunks) {
    std::size_t end = row;
    while (end < plan.rows.size() && plan.rows[end].sequence == s) ++end;
    std::vector<StreamEvent> events;
    const bool finished = commit_chunk({s, count}, std::span(outcomes).subspan(row, end - row),
                                       std::span(plan.rows).subspan(row, end - row), events);
    row = end;
    if (finished) {
      drafts_.finished(*s);
      release(*s);
      done.push_back(s);
    }
    s->channel->publish(std::move(events));
  }
  for (const Sequence* s : done) remove(s);
}

// True when the sequence has ended.
bool EngineCore::commit_chunk(ScheduledChunk chunk, std::span<Outcome> outcomes, std::span<const WantedRow> rows,
                              std::vector<StreamEvent>& events) {
  Sequence& s = *chunk.sequence;
  const bool of_prompt = s.computed < s.prompt_tokens();
  bool finished = false;
  std::size_t row = 0;
  for (; row < rows.size() && rows[row].position + 1 < s.prompt_tokens(); ++row)
    commit_prompt_logprob(s, outcomes[row]);
  if (s.computed + chunk.count >= s.prompt_tokens() && s.wants_prompt_logprobs()) {
    s.prompt_logprobs.choice = s.choice;
    s.prompt_logprobs.start = std::max(1, s.request->fields().logprobs.prompt_start);
    s.prompt_logprobs_sent = true;
    events.emplace_back(std::move(s.prompt_logprobs));
  }
  // Each further row continues a drafted token: it counts as long as the draft was what came.
  const std::vector<TokenId> draft = std::exchange(s.draft, {});
  std::size_t accepted = 0;
  for (bool goes_on = true; goes_on && !finished && row < rows.size(); ++row) {
    const TokenId token = outcomes[row].token;
    finished = commit_token(s, outcomes[row], events);
    goes_on = !finished && accepted < draft.size() && draft[accepted] == token;
    if (goes_on) ++accepted;
  }
  const int rejected = static_cast<int>(draft.size() - accepted);
  s.computed += chunk.count - rejected;
  if (!draft.empty()) settle_draft(s, static_cast<int>(accepted), rejected);
  if (of_prompt || s.to_compute() > 1) give_to_tree(s);
  if (s.computed == s.known() && s.remaining_output() == 0 && !finished) {  // nothing was asked for but the prompt
    finished = true;
    s.last_token = s.first_token = now_();
    count_finish(s, FinishReason::length);
    events.emplace_back(finish_event(s, FinishReason::length));
  }
  return finished;
}

// The slots of rejected tokens go back; what was stored in them is never read.
void EngineCore::settle_draft(Sequence& s, int accepted, int rejected) {
  metrics_.drafted_tokens.add(static_cast<std::uint64_t>(accepted + rejected));
  metrics_.accepted_tokens.add(static_cast<std::uint64_t>(accepted));
  drafts_.verified(s, accepted, rejected > 0);
  if (rejected == 0) return;
  s.own.take_back(rejected).reset();
  s.cursor.follow(s.own.empty() ? s.shared.last_slot() : s.own.extents().last_slot(),
                  s.shared.length() + s.own.length());
}

void EngineCore::commit_prompt_logprob(Sequence& s, Outcome& outcome) {
  s.prompt_logprobs.logprobs.push_back(outcome.logprob);
  s.prompt_logprobs.alternatives.push_back(std::move(outcome.alternatives));
}

// True when the sequence has ended.
bool EngineCore::commit_token(Sequence& s, Outcome& outcome, std::vector<StreamEvent>& events) {
  const auto now = now_();
  if (outcome.error) {
    FinishEvent failed = finish_event(s, FinishReason::error);
    failed.error = *outcome.error;
    count_finish(s, FinishReason::error);
    events.push_back(std::move(failed));
    return true;
  }
  s.tokens.push_back(outcome.token);
  s.counts.add_output(outcome.token);
  metrics_.generated_tokens.add();
  if (s.generated() == 1) {
    s.first_token = now;
    metrics_.first_token.observe(seconds(now - s.submitted));
    metrics_.prefill.observe(seconds(now - s.admitted));
  } else {
    metrics_.inter_token_latency.observe(seconds(now - s.last_token));
  }
  s.last_token = now;
  const bool end = is_end(s, outcome.token);
  events.push_back(TokenEvent{s.choice, outcome.token, outcome.logprob, std::move(outcome.alternatives), end});
  if (!end && s.remaining_output() > 0) return false;
  const FinishReason reason = end ? FinishReason::stop : FinishReason::length;
  FinishEvent finish = finish_event(s, reason);
  if (end) finish.matched = outcome.token;
  count_finish(s, reason);
  events.push_back(std::move(finish));
  return true;
}

void EngineCore::give_to_tree(Sequence& s) {
  if (!s.prefix.valid()) return;
  const int count = s.computed - s.prefix.length();
  if (count <= 0) return;
  const auto tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<std::size_t>(s.prefix.length()),
                                                                 static_cast<std::size_t>(count));
  Insertion inserted = tree_.extend(s.prefix, tokens, s.own.take_front(count));
  s.shared.append(inserted.extents);  // the tree's slots, which hold the same bits as ours (promise 1)
  s.cursor.follow(s.own.empty() ? s.shared.last_slot() : s.own.extents().last_slot(),
                  s.shared.length() + s.own.length());
}

// Everything the sequence holds goes back: what is computed to the tree, the rest to the allocator.
void EngineCore::release(Sequence& s) {
  give_to_tree(s);
  s.own.reset();
  s.prefix.reset();
  s.shared.clear();
  s.cursor.reset();
}

bool EngineCore::is_end(const Sequence& s, TokenId token) const {
  const SamplingParams& p = s.request->sampling();
  if (std::find(p.stop_token_ids.begin(), p.stop_token_ids.end(), token) != p.stop_token_ids.end()) return true;
  return !p.ignore_eos &&
         std::find(options_.end_tokens.begin(), options_.end_tokens.end(), token) != options_.end_tokens.end();
}

FinishEvent EngineCore::finish_event(const Sequence& s, FinishReason reason) const {
  FinishEvent event;
  event.choice = s.choice;
  event.reason = reason;
  event.usage = {s.prompt_tokens(), s.cached_tokens, s.generated(), s.retractions, s.cache_end};
  const auto now = now_();
  event.timing.queued = seconds((s.was_admitted ? s.admitted : now) - s.submitted);
  event.timing.first_token =
      s.first_token == Sequence::Clock::time_point{} ? 0.0 : seconds(s.first_token - s.submitted);
  event.timing.finished = seconds(now - s.submitted);
  return event;
}

void EngineCore::count_finish(const Sequence& s, FinishReason reason) {
  (reason == FinishReason::stop     ? metrics_.finished_stop
   : reason == FinishReason::length ? metrics_.finished_length
   : reason == FinishReason::abort  ? metrics_.finished_abort
                                    : metrics_.finished_error)
      .add();
  metrics_.duration.observe(seconds(now_() - s.submitted));
  metrics_.request_generated_tokens.observe(s.generated());
  if (s.generated() > 0) metrics_.decode.observe(seconds(s.last_token - s.first_token));
}

void EngineCore::remove(const Sequence* sequence) {
  auto is_it = [&](const auto& s) { return s.get() == sequence; };
  std::erase_if(running_, is_it);
  std::erase_if(waiting_, is_it);
}

// --- leaving early ---

void EngineCore::drop_unwanted() {
  std::vector<const Sequence*> gone;
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list) {
      const bool cancelled = s->channel->cancelled();
      if (!cancelled && !s->channel->stopped(s->choice)) continue;
      const FinishReason reason = cancelled ? FinishReason::abort : FinishReason::stop;
      count_finish(*s, reason);
      s->channel->publish({finish_event(*s, reason)});
      release(*s);
      gone.push_back(s.get());
    }
  for (const Sequence* s : gone) remove(s);
}

void EngineCore::abort_all(const Error& why) {
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list) {
      FinishEvent event = finish_event(*s, FinishReason::abort);
      event.error = why;
      count_finish(*s, FinishReason::abort);
      release(*s);
      s->channel->publish({std::move(event)});
    }
  running_.clear();
  waiting_.clear();
}

int EngineCore::abort(std::string_view id_prefix) {
  int matched = 0;
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list)
      if (s->request->id().starts_with(id_prefix) && !s->channel->cancelled()) {
        s->channel->cancel();
        ++matched;
      }
  drop_unwanted();
  return matched;
}

// --- looking from outside ---

bool EngineCore::flush_cache() {
  if (!idle()) return false;
  tree_.evict_all();
  return true;
}

EngineStatus EngineCore::status() const {
  EngineStatus status;
  status.running = static_cast<int>(running_.size());
  status.waiting = static_cast<int>(waiting_.size());
  for (const auto& s : waiting_) status.waiting_tokens += s->known();
  status.pool_tokens = allocator_.capacity();
  status.free_tokens = allocator_.free_slots();
  status.cached_tokens = tree_.held_tokens();
  status.pinned_tokens = tree_.held_tokens() - tree_.evictable_tokens();
  status.steps = steps_;
  status.new_token_ratio = ratio_.value();
  return status;
}

Result<> EngineCore::check() const {
  ESP_CHECK(allocator_.check());
  ESP_CHECK(tree_.check());
  int owned = 0;
  for (const auto& s : running_) {
    owned += s->own.length();
    if (s->computed > s->known() || s->shared.length() + s->own.length() < s->computed)
      return internal_error("sequence " + s->request->id() + " has computed more tokens than it has slots");
  }
  for (const auto& s : waiting_)
    if (!s->own.empty() || s->prefix.valid())
      return internal_error("waiting sequence " + s->request->id() + " holds slots");
  const int held = tree_.held_tokens() + owned;
  if (held != allocator_.used_slots())
    return internal_error("tree and sequences hold " + std::to_string(held) + " slots, but " +
                          std::to_string(allocator_.used_slots()) + " are in use");
  return success();
}

}  // namespace espalier
