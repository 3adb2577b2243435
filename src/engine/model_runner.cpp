#include "engine/model_runner.h"

#include "engine/choose_token.h"
#include "sampling/logprobs.h"

namespace espalier {
namespace {

// How long a row's mask may take beyond the model: others would wait for it, or nobody would.
constexpr std::chrono::milliseconds kMaskPatience{5}, kMaskAlone{100};

}  // namespace

std::vector<Outcome> ModelRunner::run(const StepPlan& plan) {
  const std::span<float> logits = forward(plan);
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  std::vector<Outcome> outcomes(plan.rows.size());
  team_.run(static_cast<int>(outcomes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const WantedRow& row = plan.rows[at];
    std::span<float> of_row = logits.subspan(static_cast<std::size_t>(logits_of_[at]) * vocabulary, vocabulary);
    thread_local std::vector<float> copy;  // choices that share a row must not see each other's penalties
    if (shared_[at]) {
      copy.assign(of_row.begin(), of_row.end());
      of_row = copy;
    }
    outcomes[at] = evaluate(of_row, row, outcomes.size() == 1);
  });
  return outcomes;
}

std::span<float> ModelRunner::forward(const StepPlan& plan) {
  batch_.clear();
  logits_of_.clear();
  shared_.clear();
  std::size_t wanted = 0;
  for (const auto& [s, count] : plan.chunks) {
    const int row_begin = batch_.add(*s, s->held, s->computed, count);
    for (; wanted < plan.rows.size() && plan.rows[wanted].computed_by == s; ++wanted) {
      const int logits = batch_.want_logits(row_begin + plan.rows[wanted].position - s->computed);
      const bool again = !logits_of_.empty() && logits_of_.back() == logits;
      logits_of_.push_back(logits);
      shared_.push_back(again);
      if (again) shared_[wanted - 1] = true;
    }
  }
  return model_.forward(batch_.finish(), kv_.view());
}

// Runs on any member of the team: reads the sequence, changes nothing but the row.
Outcome ModelRunner::evaluate(std::span<float> logits, const WantedRow& row, bool alone) const {
  const Sequence& s = *row.sequence;
  const int position = row.position;
  thread_local Logprobs logprobs;  // keeps scratch memory
  Outcome outcome;
  const LogprobFields& wanted = s.request->fields().logprobs;
  const bool of_prompt = position + 1 < s.prompt_tokens();
  if (of_prompt) {
    outcome.token = s.tokens[static_cast<std::size_t>(position) + 1];
  } else if (row.forced >= 0) {
    outcome.token = row.forced;
  } else {
    const grammar::Allowed* allowed = nullptr;
    if (row.mask) {
      const auto* mask = row.mask->wait(alone ? kMaskAlone : kMaskPatience);
      if (mask == nullptr || !mask->ok()) {
        outcome.late = mask == nullptr;
        if (mask != nullptr) outcome.error = mask->error();
        return outcome;
      }
      allowed = &**mask;
    }
    const int index = position + 1 - s.prompt_tokens();  // of the output token; behind known() when tokens are drafted
    auto pick = choose_token(logits, s, index, end_tokens_, allowed);
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
