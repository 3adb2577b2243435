#include "engine/run/model_runner.h"

#include <algorithm>

#include "engine/output/choose_token.h"
#include "sampling/logprobs.h"

namespace espalier {
namespace {

// Its mask was not there in the step before either.
bool waits_again(const WantedRow& row) {
  return row.mask && row.mask == row.sequence->late_mask;
}

// What a row's mask leaves, once it is there; null where it is late or has failed, which the outcome tells then.
const grammar::Allowed* wait_for_mask(const WantedRow& row, bool alone, Outcome& outcome) {
  const auto wait_limit = waits_again(row) ? std::chrono::milliseconds{0} : kGrammarWait;
  const auto* mask = row.mask->wait(alone ? kGrammarWaitAlone : wait_limit);
  outcome.late = mask == nullptr;
  if (mask == nullptr) return nullptr;
  if (mask->ok()) return &**mask;
  outcome.error = mask->error();
  return nullptr;
}

}  // namespace

std::vector<Outcome> ModelRunner::run(const StepPlan& plan) {
  std::vector<Outcome> outcomes;
  if (ahead_.begun()) {
    outcomes.resize(plan.rows.size());
    const StepAhead::Rest rest = ahead_.take(plan, outcomes);
    std::vector<Outcome> of_rest;
    if (!rest.plan.empty()) of_rest = compute(rest.plan);
    for (std::size_t i = 0; i < of_rest.size(); ++i) outcomes[rest.rows[i]] = std::move(of_rest[i]);
  } else {
    outcomes = compute(plan);
  }
  if (plan.goes_on) ahead_.begin(plan, outcomes);
  return outcomes;
}

std::vector<Outcome> ModelRunner::compute(const StepPlan& plan) {
  const std::span<float> logits = forward(plan);
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  const bool alone = plan.rows.size() == 1 || std::ranges::all_of(plan.rows, waits_again);
  std::vector<Outcome> outcomes(plan.rows.size());
  team_.run(static_cast<int>(outcomes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const WantedRow& row = plan.rows[at];
    if (row.sequence->request->fields().pooled)
      return void(outcomes[at].row = logits.subspan(static_cast<std::size_t>(logits_of_[at]) * vocabulary, vocabulary));
    if (logits_of_[at] < 0) return void(outcomes[at].token = row.forced);
    if (drawn_.has(at)) return give_mask(at, row, alone, outcomes[at]);
    if (scanned_.takes(logits_of_[at])) return void(outcomes[at] = token_of(logits_of_[at], row));
    std::span<float> of_row = logits.subspan(static_cast<std::size_t>(logits_of_[at]) * vocabulary, vocabulary);
    thread_local std::vector<float> copy;  // choices that share a row must not see each other's penalties
    if (is_shared(at)) {
      copy.assign(of_row.begin(), of_row.end());
      of_row = copy;
    }
    outcomes[at] = evaluate(of_row, row, alone);
  });
  drawn_.draw_rest();
  for (std::size_t at = 0; at < outcomes.size(); ++at)
    if (drawn_.has(at) && !drawn_.waits(at)) outcomes[at] = drawn_.outcome(at);
  return outcomes;
}

void ModelRunner::give_mask(std::size_t wanted, const WantedRow& row, bool alone, Outcome& outcome) {
  if (!drawn_.waits(wanted)) return;
  if (const auto* allowed = wait_for_mask(row, alone, outcome)) drawn_.give_mask(wanted, row, *allowed);
}

std::span<float> ModelRunner::forward(const StepPlan& plan) {
  batch_.clear();
  logits_of_.clear();
  readers_.clear();
  std::size_t wanted = 0;
  for (const auto& [s, count] : plan.chunks) {
    const int row_begin = batch_.add(*s, s->held, s->computed, count);
    batch_.set_rope_length(s->rope_length);
    batch_.set_adapter(s->request->fields().adapter.get());
    if (s->pictures) batch_.add_pictures(*s, count, inputs_);
    if (s->whole) batch_.see_both_ways();
    if (s->request->fields().pooled) batch_.add_types(*s);
    if (states_ != nullptr) add_states(*s);
    for (; wanted < plan.rows.size() && plan.rows[wanted].computed_by == s; ++wanted) {
      const WantedRow& row = plan.rows[wanted];
      const int logits = needs_logits(row) ? batch_.want_logits(row_begin + row.position - s->computed) : -1;
      logits_of_.push_back(logits);
      if (logits < 0) continue;
      readers_.resize(static_cast<std::size_t>(logits) + 1);
      ++readers_.back();
    }
  }
  Batch batch = batch_.finish();
  choose_readers(plan, batch);
  return model_.forward(batch, kv_.view());
}

void ModelRunner::choose_readers(const StepPlan& plan, Batch& batch) {
  scanned_.clear(readers_.size());
  drawn_.clear(plan.rows.size(), readers_.size());
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const WantedRow& row = plan.rows[i];
    if (logits_of_[i] < 0) continue;
    if (model_.draws())
      drawn_.add(i, row, logits_of_[i]);
    else if (!is_shared(i) && is_only_scanned(row))
      scanned_.add(logits_of_[i], static_cast<std::size_t>(model_.vocabulary()), row.sequence->request->sampling());
  }
  if (model_.draws())
    batch.draws = drawn_.for_batch();
  else
    batch.reader = &scanned_;
}

void ModelRunner::add_states(const Sequence& s) {
  const int to = s.state.next ? s.state.next.index() : s.state.now.index();
  batch_.add_states(states_->at(s.state.now.index()), states_->at(to));
  for (const auto& [position, cell] : s.state.marks) batch_.add_mark(position - s.computed, states_->at(cell.index()));
}

void ScannedRows::add(int row, std::size_t vocabulary, const SamplingParams& params) {
  const auto at = static_cast<std::size_t>(row);
  scanned_[at] = true;
  if (rows_.size() <= at) rows_.resize(at + 1);
  rows_[at].begin(vocabulary, params);
}

bool ModelRunner::needs_logits(const WantedRow& row) const {
  return row.forced < 0 || row.sequence->request->fields().logprobs.enabled ||
         row.position + 1 < row.sequence->prompt_tokens();
}

bool ModelRunner::is_only_scanned(const WantedRow& row) const {
  const Sequence& s = *row.sequence;
  const int index = row.position + 1 - s.prompt_tokens();
  return index >= 0 && row.forced < 0 && !s.request->fields().pooled && row.mask == nullptr && row.may_end &&
         !s.request->fields().logprobs.enabled && chooses_plainly(s, index, end_tokens_, model_.vocabulary());
}

Outcome ModelRunner::token_of(int logit_row, const WantedRow& row) {
  const Sequence& s = *row.sequence;
  Outcome outcome;
  const auto pick = scanned_.at(logit_row).pick(
      uniform_at(s, row.position + 1 - s.prompt_tokens()),
      [&](std::size_t first, std::span<float> out) { model_.logits_again(logit_row, static_cast<int>(first), out); });
  if (pick.ok())
    outcome.token = pick->token;
  else
    outcome.error = pick.error();
  return outcome;
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
    outcome.token = s.token_at(position + 1);
  } else if (row.forced >= 0) {
    outcome.token = row.forced;
  } else {
    const grammar::Allowed* allowed = row.mask ? wait_for_mask(row, alone, outcome) : nullptr;
    if (row.mask && allowed == nullptr) return outcome;
    const int index = position + 1 - s.prompt_tokens();  // of the output token; behind known() when tokens are drafted
    auto pick = choose_token(logits, s, index, end_tokens_, allowed, row.may_end);
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
