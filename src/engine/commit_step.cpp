// EngineCore: which rows of a step are wanted, and what follows from their outcomes.
#include <algorithm>
#include <limits>
#include <set>

#include "engine/engine_core.h"

namespace espalier {

// Which rows' logits are wanted: those whose successor is asked for.
void EngineCore::choose_rows(StepPlan& plan) const {
  int tokens = 0;
  std::uint64_t read = 0, extents = 0;
  int places = options_.max_running - static_cast<int>(running_.size());
  int room = allocator_.free_slots() + tree_.evictable_tokens() - expected_demand();
  for (const auto& [s, count] : plan.chunks) {
    tokens += count;
    read += static_cast<std::uint64_t>(s->held.length());
    extents += static_cast<std::uint64_t>(s->held.extents());
    const int logprobs_from = s->wants_prompt_logprobs() ? std::max(1, s->request->fields().logprobs.prompt_start) - 1
                                                         : std::numeric_limits<int>::max();
    const int end = s->computed + count;
    for (int position = std::max(s->computed, std::min(logprobs_from, s->known() - 1)); position < end; ++position) {
      const bool predicts_prompt = position >= logprobs_from && position + 1 < s->prompt_tokens();
      const bool predicts_next = position + 1 >= s->known() && s->remaining_output() > 0;
      if (predicts_prompt || predicts_next) plan.rows.push_back({s, position, s});
    }
    if (end == s->prompt_tokens() && s->generated() == 0) add_other_choices(plan, *s, places, room);
  }
  metrics_.computed_tokens.add(static_cast<std::uint64_t>(tokens));
  metrics_.read_tokens.add(read);
  metrics_.read_extents.add(extents);
  metrics_.batch_size.observe(static_cast<double>(plan.chunks.size()));
}

// The other choices of a request whose prompt is done with this chunk take their first token from the same logits.
void EngineCore::add_other_choices(StepPlan& plan, const Sequence& first, int& places, int& room) const {
  if (first.request->sampling().n == 1 || first.remaining_output() == 0 || !options_.radix_cache ||
      first.request->fields().logprobs.prompt_start >= 0)
    return;
  for (const auto& s : waiting_) {
    if (s->request != first.request || s->generated() > 0) continue;
    const auto has_it = [&](const WantedRow& row) { return row.sequence == s.get(); };
    if (std::ranges::any_of(plan.rows, has_it)) continue;  // two choices may end the prompt in one step
    const int need = expected_output(s->remaining_output(), ratio_.value());
    if (places <= 0 || need > room) return;
    --places;
    room -= need;
    plan.rows.push_back({s.get(), s->prompt_tokens() - 1, &first});
  }
}

void EngineCore::commit(const StepPlan& plan, std::vector<Outcome> outcomes) {
  std::size_t row = 0;
  std::vector<const Sequence*> done;
  for (const auto& [s, count] : plan.chunks) {
    std::size_t own_end = row;
    while (own_end < plan.rows.size() && plan.rows[own_end].sequence == s) ++own_end;
    std::vector<StreamEvent> events;
    const bool finished = commit_chunk({s, count}, std::span(outcomes).subspan(row, own_end - row),
                                       std::span(plan.rows).subspan(row, own_end - row), events);
    row = own_end;
    if (finished) {
      drafts_.finished(*s);
      release(*s);
      done.push_back(s);
    }
    s->channel->publish(std::move(events));
    for (; row < plan.rows.size() && plan.rows[row].computed_by == s; ++row)
      if (fork(plan.rows[row].sequence, outcomes[row])) done.push_back(plan.rows[row].sequence);
  }
  remove(done);
}

// A waiting choice begins to decode with the token it was given, on the prompt that the tree holds by now. True when it
// has ended with that. Where the tree does not hold all of it, it goes on waiting and computes its part itself.
bool EngineCore::fork(const Sequence* choice, Outcome& outcome) {
  const auto at = std::ranges::find_if(waiting_, [&](const auto& s) { return s.get() == choice; });
  Sequence& s = **at;
  Match match = tree_.match(s.key(), {.length = s.prompt_tokens()});
  if (match.length < s.prompt_tokens()) return false;
  begin(s, std::move(match));
  std::vector<StreamEvent> events;
  const bool finished = commit_token(s, outcome, events);
  if (finished)
    release(s);
  else
    running_.insert(std::ranges::upper_bound(running_, s.arrival, {}, &Sequence::arrival), std::move(*at));
  s.channel->publish(std::move(events));
  if (!finished) waiting_.erase(at);
  return finished;
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
  if (drafts_.on() && row > 0 && !of_prompt) {  // the first token comes with the prompt
    ++s.draft_steps;
    metrics_.draft_steps.add();
  }
  if (!draft.empty()) settle_draft(s, static_cast<int>(accepted), rejected);
  if (of_prompt || s.to_compute() > 1) s.held.give_to(tree_, s.tokens, s.computed);
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
  metrics_.drafted_tokens.add(static_cast<std::uint64_t>(accepted) + static_cast<std::uint64_t>(rejected));
  metrics_.accepted_tokens.add(static_cast<std::uint64_t>(accepted));
  s.drafted += accepted + rejected;
  s.accepted += accepted;
  drafts_.verified(s, accepted, rejected);
  s.held.keep_first(s.held.length() - rejected);
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
  if (s.request->sampling().penalises()) s.counts.add_output(outcome.token);  // nobody else asks for them
  metrics_.generated_tokens.add();
  if (s.generated() == 1) {
    s.first_token = now;
    metrics_.first_token.observe(seconds_of(now - s.submitted));
    metrics_.prefill.observe(seconds_of(now - s.admitted));
  } else {
    metrics_.inter_token_latency.observe(seconds_of(now - s.last_token));
  }
  s.last_token = now;
  const bool end = is_end(s, outcome.token);
  events.push_back(
      TokenEvent{s.choice, outcome.token, outcome.logprob, std::move(outcome.alternatives), end, s.cached_tokens});
  if (!end && s.remaining_output() > 0) return false;
  const FinishReason reason = end ? FinishReason::stop : FinishReason::length;
  FinishEvent finish = finish_event(s, reason);
  if (end) finish.matched = outcome.token;
  count_finish(s, reason);
  events.push_back(std::move(finish));
  return true;
}

// Everything the sequence holds goes back: what is computed to the tree, the rest to the allocator.
void EngineCore::release(Sequence& s) {
  s.held.give_to(tree_, s.tokens, s.computed);
  s.held.reset();
  drafts_.let_go(s);
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
  event.usage = {s.prompt_tokens(), s.cached_tokens, s.generated(), s.retractions, s.disk_tokens,
                 s.draft_steps,     s.drafted,       s.accepted,    s.cache_end};
  const auto now = now_();
  event.timing.queued = seconds_of((s.was_admitted ? s.admitted : now) - s.submitted);
  event.timing.first_token =
      s.first_token == Sequence::Clock::time_point{} ? 0.0 : seconds_of(s.first_token - s.submitted);
  event.timing.finished = seconds_of(now - s.submitted);
  return event;
}

void EngineCore::count_finish(const Sequence& s, FinishReason reason) {
  (reason == FinishReason::stop     ? metrics_.finished_stop
   : reason == FinishReason::length ? metrics_.finished_length
   : reason == FinishReason::abort  ? metrics_.finished_abort
                                    : metrics_.finished_error)
      .add();
  metrics_.duration.observe(seconds_of(now_() - s.submitted));
  metrics_.request_generated_tokens.observe(s.generated());
  if (s.generated() > 0) metrics_.decode.observe(seconds_of(s.last_token - s.first_token));
}

// One pass for all of them, and over those that wait only when some of them did.
void EngineCore::remove(std::span<const Sequence* const> gone) {
  if (gone.empty()) return;
  if (disk_)
    for (const Sequence* s : gone) disk_->forget(s->arrival);
  const std::set<const Sequence*> all(gone.begin(), gone.end());
  const auto is_gone = [&](const auto& s) { return all.contains(s.get()); };
  if (std::erase_if(running_, is_gone) < all.size()) std::erase_if(waiting_, is_gone);
}

}  // namespace espalier
