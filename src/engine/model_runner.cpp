#include "engine/model_runner.h"

#include "engine/choose_token.h"
#include "sampling/logprobs.h"

namespace espalier {

std::vector<Outcome> ModelRunner::run(const StepPlan& plan) {
  const std::span<float> logits = forward(plan);
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  std::vector<Outcome> outcomes(plan.rows.size());
  team_.run(static_cast<int>(outcomes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const WantedRow& row = plan.rows[at];
    std::span<float> of_row = logits.subspan(static_cast<std::size_t>(batch_.logits_of[at]) * vocabulary, vocabulary);
    thread_local std::vector<float> copy;  // choices that share a row must not see each other's penalties
    if (batch_.shared[at]) {
      copy.assign(of_row.begin(), of_row.end());
      of_row = copy;
    }
    outcomes[at] = evaluate(of_row, *row.sequence, row.position);
  });
  return outcomes;
}

std::span<float> ModelRunner::forward(const StepPlan& plan) {
  batch_.tokens.clear();
  batch_.slots.clear();
  batch_.sequences.clear();
  batch_.logit_rows.clear();
  batch_.runs.clear();
  batch_.logits_of.clear();
  batch_.shared.clear();
  std::size_t run_count = 0;
  for (const auto& [s, count] : plan.chunks)
    run_count += s->shared.extents().size() + s->own.extents().extents().size();
  batch_.runs.reserve(run_count);  // spans into it must stay valid

  std::size_t wanted = 0;
  for (const auto& [s, count] : plan.chunks) {
    const int row_begin = static_cast<int>(batch_.tokens.size()), private_begin = s->shared.length();
    const std::size_t first_run = batch_.runs.size();
    for (const Extent& e : s->shared.extents()) batch_.runs.push_back({e.start, e.length});
    for (const Extent& e : s->own.extents().extents()) batch_.runs.push_back({e.start, e.length});
    batch_.sequences.push_back({row_begin, count, s->computed, std::span(batch_.runs).subspan(first_run)});
    for (int i = 0; i < count; ++i) {
      batch_.tokens.push_back(s->token_at(s->computed + i));
      batch_.slots.push_back(s->own.extents().slot_at(s->computed + i - private_begin));
    }
    for (; wanted < plan.rows.size() && plan.rows[wanted].computed_by == s; ++wanted) {
      const int row = row_begin + plan.rows[wanted].position - s->computed;
      const bool again = !batch_.logit_rows.empty() && batch_.logit_rows.back() == row;
      if (!again) batch_.logit_rows.push_back(row);
      batch_.logits_of.push_back(static_cast<int>(batch_.logit_rows.size()) - 1);
      batch_.shared.push_back(again);
      if (again) batch_.shared[wanted - 1] = true;
    }
  }
  return model_.forward({batch_.tokens, batch_.slots, batch_.sequences, batch_.logit_rows}, kv_.view());
}

// Runs on any member of the team: reads the sequence, changes nothing but the row.
Outcome ModelRunner::evaluate(std::span<float> logits, const Sequence& s, int position) const {
  thread_local Logprobs logprobs;  // keeps scratch memory
  Outcome outcome;
  const LogprobFields& wanted = s.request->fields().logprobs;
  const bool of_prompt = position + 1 < s.prompt_tokens();
  if (of_prompt) {
    outcome.token = s.tokens[static_cast<std::size_t>(position) + 1];
  } else {
    const int index = position + 1 - s.prompt_tokens();  // of the output token; behind known() when tokens are drafted
    auto pick = choose_token(logits, s, index, end_tokens_);
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

}  // namespace espalier
