#include "engine/output/output_writer.h"

#include <algorithm>
#include <cmath>

namespace espalier {

bool OutputWriter::knows_next(Sequence& s, TokenId token) const {
  const bool closes = s.request->fields().json_closing && s.remaining_output() == 1;
  const auto first = alone_ ? kGrammarWaitAlone : kGrammarWait;
  return s.text.knows_next(token, s.output(), closes, {queue_, first, alone_ ? first : decltype(first){0}});
}

bool OutputWriter::commit(Sequence& s, Outcome& outcome, Events& events) {
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

void OutputWriter::append(Sequence& s, TokenId token, Outcome& outcome, bool ends, Events& events) {
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
      TokenEvent{s.choice, token, outcome.logprob, std::move(outcome.alternatives), ends, s.cached_tokens, sampled_});
}

bool OutputWriter::finish(Sequence& s, FinishReason reason, std::optional<TokenId> matched, Events& events) {
  FinishEvent finish = ends_.of(s, reason);
  finish.matched = matched;
  events.push_back(std::move(finish));
  return true;
}

bool OutputWriter::fail(Sequence& s, const Error& error, Events& events) {
  events.push_back(ends_.of(s, FinishReason::error, error));
  return true;
}

bool OutputWriter::give_pooled(Sequence& s, Events& events) {
  if (!std::ranges::all_of(s.pooled.values, [](float value) { return std::isfinite(value); }))
    return fail(s, internal_error("the model gave values that are no numbers"), events);
  events.emplace_back(std::move(s.pooled));
  return finish(s, FinishReason::stop, std::nullopt, events);
}

// ---- text that must come

bool OutputWriter::jumps(const Sequence& s) const {
  return options_.jump_forward && !s.request->fields().logprobs.enabled;
}

bool OutputWriter::jump(Sequence& s, Events& events) {
  if (!s.text || !jumps(s)) return false;
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
    if (commit(s, outcome, events)) return true;
  }
}

void OutputWriter::jump_at_start(Sequence& s) {
  if (!s.text || !jumps(s) || s.generated() > 0) return;
  sampled_ = now_();
  Events events;
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
void OutputWriter::close(Sequence& s, Events& events) {
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

bool OutputWriter::is_end(const Sequence& s, TokenId token) const {
  const SamplingParams& p = s.request->sampling();
  if (std::ranges::find(p.stop_token_ids, token) != p.stop_token_ids.end()) return true;
  return !p.ignore_eos && std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end();
}

}  // namespace espalier
