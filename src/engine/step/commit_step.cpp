// EngineCore: which rows of a step are wanted, and what follows from their outcomes.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "engine/step/engine_core.h"

namespace espalier {

// Which rows' logits are wanted: those whose successor is asked for.
void EngineCore::choose_rows(StepPlan& plan) const {
  int tokens = 0;
  std::uint64_t read = 0, extents = 0;
  int places =
      std::min(options_.max_running - static_cast<int>(running_.size()), states_.room(running_, admitted_now_));
  int room = std::min(allocator_.free_slots() + tree_.evictable_tokens() - expected_demand(),
                      windows_.room(running_, admitted_now_));
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
      if (predicts_prompt || predicts_next) plan.rows.push_back(wanted_row(*s, position, *s));
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
    const int need = expected_further(*s);
    if (places <= 0 || need > room) return;
    --places;
    room -= need;
    plan.rows.push_back(wanted_row(*s, s->prompt_tokens() - 1, first));
  }
}

// A row whose next token is wanted knows what the constraint says of it.
WantedRow EngineCore::wanted_row(const Sequence& s, int position, const Sequence& computed_by) const {
  WantedRow row{&s, position, &computed_by, -1, nullptr};
  const int offset = position + 1 - s.known();
  if (!s.text || s.broken || offset < 0) return row;
  const auto place = offset == 0 ? s.text.place() : s.places[static_cast<std::size_t>(offset)];
  if (!place.holds) return row;
  row.forced = place.ends && !options_.end_tokens.empty() ? options_.end_tokens.front() : place.forced;
  if (row.forced >= 0) return row;
  const auto& grammar = s.text.grammar();
  if (s.late_mask && s.late_mask->is_of(place.state, place.also_allowed))
    row.mask = s.late_mask;
  else if (auto known = grammar->known(place.state))
    row.mask = std::make_shared<RowMask>(place.state, place.also_allowed, *std::move(known));
  else
    row.mask = std::make_shared<RowMask>(grammar, place.state, place.also_allowed);
  return row;
}

// Masks that are not known are worked out while the model computes.
void EngineCore::start_masks(const StepPlan& plan) {
  for (const WantedRow& row : plan.rows) {
    if (!row.mask || !row.mask->claim() || row.mask->ready()) continue;
    metrics_.masks.add();
    const bool taken = grammar_queue_ &&
                       grammar_queue_->submit(row.sequence->text.grammar().get(), [mask = row.mask] { mask->work(); });
    if (!taken) row.mask->work();
  }
}

void EngineCore::commit(const StepPlan& plan, std::vector<Outcome> outcomes) {
  alone_ = plan.rows.size() == 1;
  std::size_t row = 0;
  std::vector<const Sequence*> done;
  for (const auto& [s, count] : plan.chunks) {
    std::size_t own_end = row;
    while (own_end < plan.rows.size() && plan.rows[own_end].sequence == s) ++own_end;
    std::vector<StreamEvent> events;
    const bool finished = commit_chunk({s, count}, std::span(outcomes).subspan(row, own_end - row),
                                       std::span(plan.rows).subspan(row, own_end - row), events);
    row = own_end;
    StateCell at_prompt_end;  // for the choices that go on from there
    if (row < plan.rows.size() && plan.rows[row].computed_by == s && s->computed == s->prompt_tokens())
      at_prompt_end = s->state.now.share();
    if (finished) {
      drafts_.finished(*s);
      release(*s);
      done.push_back(s);
    }
    s->channel->publish(std::move(events));
    for (; row < plan.rows.size() && plan.rows[row].computed_by == s; ++row)
      if (fork(plan.rows[row].sequence, outcomes[row], at_prompt_end)) done.push_back(plan.rows[row].sequence);
  }
  remove(done);
}

// A waiting choice begins to decode with the token it was given, on the prompt that the tree holds by now. True when it
// has ended with that. Where the tree does not hold all of it, it goes on waiting and computes its part itself.
bool EngineCore::fork(const Sequence* choice, Outcome& outcome, const StateCell& at_prompt_end) {
  const auto at = std::ranges::find_if(waiting_, [&](const auto& s) { return s.get() == choice; });
  Sequence& s = **at;
  Match match = tree_.match(s.key(), {.length = s.prompt_tokens(), .with_state = false});
  if (match.length < s.prompt_tokens() || (states_.on() && !at_prompt_end)) return false;
  match.state = at_prompt_end.share();
  if (outcome.late || (!outcome.error && !knows_next(s, outcome.token))) return false;
  begin(s, std::move(match));
  std::vector<StreamEvent> events;
  const bool finished = commit_token(s, outcome, events) || jump(s, events);
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
  if (s.broken) return fail(s, *s.broken, events);
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
  s.late_mask.reset();
  bool late = false;
  for (bool goes_on = true; goes_on && !finished && row < rows.size(); ++row) {
    late = outcomes[row].late || (!outcomes[row].error && !knows_next(s, outcomes[row].token));
    if (late) {
      s.late_mask = rows[row].mask;
      metrics_.late_masks.add();
      break;
    }
    const TokenId token = outcomes[row].token;
    finished = commit_token(s, outcomes[row], events);
    goes_on = !finished && accepted < draft.size() && draft[accepted] == token;
    if (goes_on) ++accepted;
  }
  const int rejected = static_cast<int>(draft.size() - accepted);
  const int again = late ? 1 : 0;  // its last row
  const int held = chunk.count - rejected - again, computed = states_.settle(s, chunk.count, held);
  s.computed += computed;
  s.read_again = held - computed;
  if (drafts_.on() && row > 0 && !of_prompt) {  // the first token comes with the prompt
    ++s.draft_steps;
    metrics_.draft_steps.add();
  }
  if (!draft.empty()) settle_draft(s, static_cast<int>(accepted), rejected);
  // What was stored behind is read by a layer that drafts alone: it goes on from tokens that are to be read again.
  s.held.keep_first(s.computed + (drafts_.by_layer() ? s.read_again : 0));
  if (of_prompt || s.to_compute() > 1) s.held.give_to(tree_, s.tokens, s.computed);
  s.held.forget_behind_window(s.computed);
  states_.leave_snapshots(s);
  if (s.computed == s.known() && s.remaining_output() == 0 && !finished) {  // nothing was asked for but the prompt
    s.last_token = s.first_token = now_();
    finished = finish(s, FinishReason::length, std::nullopt, events);
  }
  const bool prompt_done = s.computed + s.read_again + again >= s.prompt_tokens();
  return finished || (prompt_done && jump(s, events));
}

void EngineCore::settle_draft(Sequence& s, int accepted, int rejected) {
  if (std::exchange(s.draft_is_forced, false)) {
    s.passes_saved += accepted;
    metrics_.passes_saved.add(static_cast<std::uint64_t>(accepted));
    return;
  }
  metrics_.drafted_tokens.add(static_cast<std::uint64_t>(accepted) + static_cast<std::uint64_t>(rejected));
  metrics_.accepted_tokens.add(static_cast<std::uint64_t>(accepted));
  s.drafted += accepted + rejected;
  s.accepted += accepted;
  drafts_.verified(s, accepted, rejected);
}

void EngineCore::commit_prompt_logprob(Sequence& s, Outcome& outcome) {
  s.prompt_logprobs.logprobs.push_back(outcome.logprob);
  s.prompt_logprobs.alternatives.push_back(std::move(outcome.alternatives));
}

// Whether the token can be committed without holding up the others.
bool EngineCore::knows_next(Sequence& s, TokenId token) const {
  const bool closes = s.request->fields().json_closing && s.remaining_output() == 1;
  const auto first = alone_ ? kGrammarWaitAlone : kGrammarWait;
  return s.text.knows_next(token, s.output(), closes, {grammar_queue_, first, alone_ ? first : decltype(first){0}});
}

// True when the sequence has ended.
bool EngineCore::commit_token(Sequence& s, Outcome& outcome, std::vector<StreamEvent>& events) {
  if (outcome.error) return fail(s, *outcome.error, events);
  const TokenId token = outcome.token;
  const bool forced = s.text.ends() || !s.text.forced().empty();
  const bool end = is_end(s, token) || s.text.ends();
  if (forced) {
    ++s.forced_tokens;
    metrics_.forced_tokens.add();
  }
  append(s, token, outcome, end, events);
  if (end) return finish(s, FinishReason::stop, token, events);
  if (s.text) {
    if (auto advanced = s.text.advance(token, s.output()); !advanced.ok()) return fail(s, advanced.error(), events);
  }
  if (s.text.ends() && (options_.end_tokens.empty() || s.remaining_output() == 0))
    return finish(s, FinishReason::stop, std::nullopt, events);
  if (s.remaining_output() > 0) return false;
  if (s.request->fields().json_closing && s.text.holds()) close(s, events);
  return finish(s, FinishReason::length, std::nullopt, events);
}

void EngineCore::append(Sequence& s, TokenId token, Outcome& outcome, bool ends, std::vector<StreamEvent>& events) {
  const auto now = now_();
  s.tokens.push_back(token);
  if (s.request->sampling().penalises()) s.counts.add_output(token);  // nobody else asks for them
  metrics_.generated_tokens.add();
  if (s.generated() == 1) {
    s.first_token = now;
    metrics_.first_token.observe(seconds_of(now - s.submitted));
    metrics_.prefill.observe(seconds_of(now - s.admitted));
  } else {
    metrics_.inter_token_latency.observe(seconds_of(now - s.last_token));
  }
  s.last_token = now;
  events.push_back(
      TokenEvent{s.choice, token, outcome.logprob, std::move(outcome.alternatives), ends, s.cached_tokens});
}

bool EngineCore::finish(Sequence& s, FinishReason reason, std::optional<TokenId> matched,
                        std::vector<StreamEvent>& events) {
  FinishEvent finish = finish_event(s, reason);
  finish.matched = matched;
  count_finish(s, reason);
  events.push_back(std::move(finish));
  return true;
}

bool EngineCore::fail(Sequence& s, const Error& error, std::vector<StreamEvent>& events) {
  FinishEvent failed = finish_event(s, FinishReason::error);
  failed.error = error;
  count_finish(s, FinishReason::error);
  events.push_back(std::move(failed));
  return true;
}

// ---- text that must come

// What must come now is part of the output at once; the model reads it as it reads a prompt. True when the sequence has
// ended with it.
bool EngineCore::jump(Sequence& s, std::vector<StreamEvent>& events) {
  if (!s.text.holds() || !jumps(s)) return false;
  for (;;) {
    Outcome outcome;
    if (!s.text.forced().empty())
      outcome.token = s.text.forced().front();
    else if (s.text.ends())
      outcome.token = options_.end_tokens.front();  // without one it has ended before
    else
      return false;
    if (!knows_next(s, outcome.token)) return false;
    ++s.passes_saved;
    metrics_.passes_saved.add();
    if (commit_token(s, outcome, events)) return true;
  }
}

// The same before the first token, so that it is computed with the prompt. The end is left to the first row.
void EngineCore::jump_at_start(Sequence& s) {
  if (!s.text.holds() || !jumps(s) || s.generated() > 0) return;
  std::vector<StreamEvent> events;
  while (!s.broken && s.remaining_output() > 1 && !s.text.forced().empty()) {
    Outcome outcome;
    outcome.token = s.text.forced().front();
    if (is_end(s, outcome.token) || !knows_next(s, outcome.token)) break;
    ++s.forced_tokens;
    ++s.passes_saved;
    metrics_.forced_tokens.add();
    metrics_.passes_saved.add();
    append(s, outcome.token, outcome, false, events);
    if (auto advanced = s.text.advance(outcome.token, s.output()); !advanced.ok()) s.broken = advanced.error();
  }
  if (!events.empty()) s.channel->publish(std::move(events));
}

// An output that ends for its length is completed by a shortest text, beyond that length. Where there is none that can
// be found and written, it says so.
void EngineCore::close(Sequence& s, std::vector<StreamEvent>& events) {
  const auto text = s.text.grammar()->closing(s.text.state());
  const auto tokens = text.ok() ? s.text.grammar()->tokens_of(*text, s.text.own(s.output())) : std::vector<TokenId>();
  s.left_open = !text.ok() || (tokens.empty() && !text->empty());
  for (const TokenId token : tokens) {
    Outcome outcome;
    outcome.token = token;
    append(s, token, outcome, false, events);
    s.closed = true;
  }
}

// Everything the sequence holds goes back: what is computed to the tree, the rest to the allocator.
void EngineCore::release(Sequence& s) {
  s.held.give_to(tree_, s.tokens, s.computed);
  states_.release(s);
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
  event.usage = {.prompt_tokens = s.prompt_tokens(),
                 .cached_tokens = s.cached_tokens,
                 .completion_tokens = s.generated(),
                 .retractions = s.retractions,
                 .disk_tokens = s.disk_tokens,
                 .draft_steps = s.draft_steps,
                 .drafted_tokens = s.drafted,
                 .accepted_tokens = s.accepted,
                 .forced_tokens = s.forced_tokens,
                 .passes_saved = s.passes_saved,
                 .closed = s.closed,
                 .left_open = s.left_open,
                 .cache_end = s.cache_end};
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
