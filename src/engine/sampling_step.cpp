// What becomes of one step's logits: the next token of a sequence, or the log-probability of a token of its prompt.
#include "engine/engine_core.h"
#include "engine/outcome.h"
#include "sampling/logprobs.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"

namespace espalier {
namespace {

// The end and stop tokens, which may not come before min_new_tokens.
std::vector<TokenId> forbidden_now(const Sequence& s, const std::vector<TokenId>& end_tokens) {
  const SamplingParams& p = s.request->sampling();
  if (s.generated() >= p.min_new_tokens) return {};
  std::vector<TokenId> out = p.stop_token_ids;
  out.insert(out.end(), end_tokens.begin(), end_tokens.end());
  return out;
}

}  // namespace

std::vector<EngineCore::Outcome> EngineCore::sample(std::span<float> logits) {
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  std::vector<Outcome> outcomes(batch_.rows.size());
  team_.run(static_cast<int>(outcomes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const Row& row = batch_.rows[at];
    outcomes[at] = evaluate(logits.subspan(at * vocabulary, vocabulary), *row.sequence, row.position);
  });
  return outcomes;
}

// Runs on any member of the team: reads the sequence, changes nothing but the row.
EngineCore::Outcome EngineCore::evaluate(std::span<float> logits, const Sequence& s, int position) {
  thread_local Sampler sampler;  // keeps scratch memory; which member picks does not matter to the result
  thread_local Logprobs logprobs;
  Outcome outcome;
  const LogprobFields& wanted = s.request->fields().logprobs;
  const bool of_prompt = position + 1 < s.prompt_tokens();
  if (of_prompt) {
    outcome.token = s.tokens[static_cast<std::size_t>(position) + 1];
  } else {
    const std::vector<TokenId> forbidden = forbidden_now(s, options_.end_tokens);
    PickInput input;
    input.logits = logits;
    input.params = &s.request->sampling();
    input.counts = &s.counts;
    input.forbidden = forbidden;
    input.uniform = Noise(s.request->seed(), static_cast<std::uint32_t>(s.choice))
                        .uniform(static_cast<std::uint64_t>(s.generated()));
    auto pick = sampler.pick(input);
    if (!pick.ok()) {
      outcome.error = pick.error();
      return outcome;
    }
    outcome.token = pick->token;
  }
  if (!of_prompt && !wanted.enabled) return outcome;
  if (auto read = logprobs.read(logits); !read.ok()) {
    outcome.error = read.error();
    return outcome;
  }
  outcome.logprob = logprobs.of(outcome.token);
  outcome.alternatives.ids = logprobs.of(wanted.ids);
  if (wanted.top > 0) outcome.alternatives.top = logprobs.top(wanted.top);
  return outcome;
}

void EngineCore::commit_prompt_logprob(Sequence& s, Outcome& outcome, int) {
  s.prompt_logprobs.logprobs.push_back(outcome.logprob);
  s.prompt_logprobs.alternatives.push_back(std::move(outcome.alternatives));
}

// True when the sequence has ended.
bool EngineCore::commit_token(Sequence& s, Outcome& outcome, std::vector<StreamEvent>& events) {
  const auto now = Sequence::Clock::now();
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
    metrics_.first_token.observe(std::chrono::duration<double>(now - s.submitted).count());
    metrics_.prefill.observe(std::chrono::duration<double>(now - s.admitted).count());
  } else {
    metrics_.inter_token_latency.observe(std::chrono::duration<double>(now - s.last_token).count());
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

}  // namespace espalier
