// EngineCore: what follows from the outcomes of a step's rows.
#include <algorithm>
#include <utility>

#include "engine/step/engine_core.h"

namespace espalier {

void EngineCore::commit(const StepPlan& plan, std::vector<Outcome> outcomes) {
  output_.begin_step(plan.rows.size() == 1);
  std::size_t row = 0;
  std::vector<const Sequence*> done;
  Events events;
  for (const auto& [s, count] : plan.chunks) {
    std::size_t own_end = row;
    while (own_end < plan.rows.size() && plan.rows[own_end].sequence == s) ++own_end;
    const bool finished = commit_chunk({s, count}, std::span(outcomes).subspan(row, own_end - row),
                                       std::span(plan.rows).subspan(row, own_end - row), events);
    row = own_end;
    StateCell at_prompt_end;  // for the choices that go on from there
    if (row < plan.rows.size() && plan.rows[row].computed_by == s && s->computed == s->prompt_tokens())
      at_prompt_end = s->state.now.share();
    if (finished) {
      drafts_.finished(*s);
      reuse_.release(*s);
      done.push_back(s);
    }
    s->channel->publish(events);
    for (; row < plan.rows.size() && plan.rows[row].computed_by == s; ++row)
      if (fork(plan.rows[row].sequence, outcomes[row], at_prompt_end)) done.push_back(plan.rows[row].sequence);
  }
  remove(done);
}

// A waiting choice begins to decode with the token it was given, on the prompt that the tree holds by now. True when it
// has ended with that. Where the tree does not hold all of it, it goes on waiting and computes its part itself.
bool EngineCore::fork(const Sequence* choice, Outcome& outcome, const StateCell& at_prompt_end) {
  auto& [waiting, running, admitted, retracted] = sequences_;
  const auto at = std::ranges::find_if(waiting, [&](const auto& s) { return s.get() == choice; });
  Sequence& s = **at;
  Match match = memory_.tree().match(s.key(), {.length = s.prompt_tokens(), .with_state = false});
  if (match.length < s.prompt_tokens() || (memory_.states().on() && !at_prompt_end)) return false;
  match.state = at_prompt_end.share();
  if (outcome.late || (!outcome.error && !output_.knows_next(s, outcome.token))) return false;
  reuse_.begin(s, std::move(match));
  Events events;
  const bool finished = output_.commit(s, outcome, events) || output_.jump(s, events);
  if (finished)
    reuse_.release(s);
  else
    running.insert(std::ranges::upper_bound(running, s.arrival, {}, &Sequence::arrival), std::move(*at));
  s.channel->publish(std::move(events));
  if (!finished) waiting.erase(at);
  return finished;
}

// True when the sequence has ended.
bool EngineCore::commit_chunk(ScheduledChunk chunk, std::span<Outcome> outcomes, std::span<const WantedRow> rows,
                              Events& events) {
  Sequence& s = *chunk.sequence;
  if (s.broken) return output_.fail(s, *s.broken, events);
  const bool of_prompt = s.computed < s.prompt_tokens();
  if (s.request->fields().pooled) outcomes = {}, rows = {};  // the pooler has taken them
  const std::size_t of_logprobs = commit_prompt_logprobs(chunk, outcomes, rows, events);
  const std::vector<TokenId> draft = std::exchange(s.draft, {});
  auto [tokens, accepted, late, finished] =
      commit_tokens(s, outcomes.subspan(of_logprobs), rows.subspan(of_logprobs), draft, events);
  const int rejected = static_cast<int>(draft.size() - accepted);
  const int again = late ? 1 : 0;  // its last row
  const int held = chunk.count - rejected - again, computed = memory_.states().settle(s, chunk.count, held);
  s.computed += computed;
  s.read_again = held - computed;
  s.pictures.passed(s.computed);
  if (drafts_.on() && tokens > 0 && !of_prompt) {  // the first token comes with the prompt
    ++s.draft_steps;
    metrics_.draft_steps.add();
  }
  if (!draft.empty()) draft_plan_.settle(s, static_cast<int>(accepted), rejected);
  // What was stored behind is read by a layer that drafts alone: it goes on from tokens that are to be read again.
  s.held.keep_first(s.computed + std::exchange(s.slots_ahead, 0) + (drafts_.by_layer() ? s.read_again : 0));
  if (of_prompt || s.to_compute() > 1) s.held.give_to(memory_.tree(), s.tokens, s.computed, s.pictures.whole());
  if (of_prompt && s.computed >= s.prompt_tokens() && memory_.remote() != nullptr)
    memory_.remote()->computed(s.key(), s.computed);
  s.held.forget_behind_window(s.computed);
  memory_.states().leave_snapshots(s);
  if (s.computed == s.known() && s.remaining_output() == 0 && !finished) {  // nothing was asked for but the prompt
    s.last_token = s.first_token = now_();
    finished = s.request->fields().pooled ? output_.give_pooled(s, events)
                                          : output_.finish(s, FinishReason::length, std::nullopt, events);
  }
  const bool prompt_done = s.computed + s.read_again + again >= s.prompt_tokens();
  return finished || (prompt_done && output_.jump(s, events));
}

// The rows, from the first, that were wanted for log-probabilities of the prompt; how many.
std::size_t EngineCore::commit_prompt_logprobs(ScheduledChunk chunk, std::span<Outcome> outcomes,
                                               std::span<const WantedRow> rows, Events& events) {
  Sequence& s = *chunk.sequence;
  std::size_t row = 0;
  for (; row < rows.size() && rows[row].position + 1 < s.prompt_tokens(); ++row) {
    s.prompt_logprobs.logprobs.push_back(outcomes[row].logprob);
    s.prompt_logprobs.alternatives.push_back(std::move(outcomes[row].alternatives));
  }
  if (s.computed + chunk.count >= s.prompt_tokens() && s.wants_prompt_logprobs()) {
    s.prompt_logprobs.choice = s.choice;
    s.prompt_logprobs.start = std::max(1, s.request->fields().logprobs.prompt_start);
    s.prompt_logprobs_sent = true;
    events.emplace_back(std::move(s.prompt_logprobs));
  }
  return row;
}

// Each further row continues a drafted token: it counts as long as the draft was what came.
EngineCore::Accepted EngineCore::commit_tokens(Sequence& s, std::span<Outcome> outcomes,
                                               std::span<const WantedRow> rows, std::span<const TokenId> draft,
                                               Events& events) {
  Accepted accepted;
  s.late_mask.reset();
  bool goes_on = true;
  for (std::size_t row = 0; goes_on && !accepted.finished && row < rows.size(); ++row) {
    if (outcomes[row].late || (!outcomes[row].error && !output_.knows_next(s, outcomes[row].token))) {
      accepted.late = true;
      s.late_mask = rows[row].mask;
      metrics_.late_masks.add();
      break;
    }
    const TokenId token = outcomes[row].token;
    ++accepted.tokens;
    accepted.finished = output_.commit(s, outcomes[row], events);
    goes_on = !accepted.finished && accepted.drafted < draft.size() && draft[accepted.drafted] == token;
    if (goes_on) ++accepted.drafted;
  }
  return accepted;
}

}  // namespace espalier
