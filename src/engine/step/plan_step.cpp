// EngineCore: which tokens are next.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/step/engine_core.h"
#include "engine/step/logprob_rows.h"

namespace espalier {
namespace {

constexpr int kLeastChunk = 16;      // prompt tokens of a step, however short the wanted latency
constexpr int kAllPieces = 1 << 20;  // of prefixes that were read from disk

}  // namespace

StepPlan EngineCore::plan() {
  StepPlan plan;
  if (memory_.disk() != nullptr) memory_.disk()->collect(sequences_.running.empty() ? kAllPieces : 1);
  rooms_.release_given();
  drop_expired();
  drop_unseen();
  if (!pins().empty()) pins().drop_expired(now_());
  int prompt_budget = this->prompt_budget();
  plan_running(plan, prompt_budget);
  admission_.admit(plan, prompt_budget);
  sequences_.keep_retracted();
  draft_plan_.add(plan, prompt_budget);
  retraction_.secure(plan);
  compaction_.step(sequences_.running);
  plan.goes_on = options_.ahead && take_slots_ahead(plan);
  return plan;
}

// For the tokens behind the plan's, if all sequences go on with one each as far as is known, and nobody waits.
bool EngineCore::take_slots_ahead(const StepPlan& plan) {
  if (!sequences_.waiting.empty() || drafts_.on() || memory_.states().on()) return false;
  for (const auto& [s, count] : plan.chunks)
    if (s->computed + count != s->known() || s->request->fields().pooled) return false;
  return std::ranges::all_of(plan.chunks, [&](const ScheduledChunk& chunk) {
    Sequence& s = *chunk.sequence;
    s.slots_ahead = memory_.take_slots_to_guess(s, s.known() + 1) ? 1 : 0;
    return s.slots_ahead > 0;
  });
}

// Under a wanted latency between tokens, as many prompt tokens beside the decoding rows as fit into its time.
int EngineCore::prompt_budget() const {
  if (options_.target_itl <= 0 || !meter_.cost().known()) return options_.prefill_chunk;
  const auto decoding = std::ranges::count_if(sequences_.running, [](const auto& s) { return s->decodes(); });
  if (decoding == 0) return options_.prefill_chunk;
  return std::clamp(meter_.cost().rows_within(options_.target_itl) - static_cast<int>(decoding),
                    std::min(kLeastChunk, options_.prefill_chunk), options_.prefill_chunk);
}

// Requests that have waited beyond their deadline end here; those of which a choice has begun may finish.
void EngineCore::drop_expired() {
  if (!any_deadline_) return;
  const auto now = now_();
  const Error late{Error::Kind::timeout, "the request waited longer than its deadline allows", "deadline_ms",
                   "deadline"};
  std::vector<const Sequence*> expired;
  for (const auto& s : sequences_.waiting) {
    const auto& deadline = s->request->fields().deadline;
    if (!deadline || s->channel->begun() || now - s->submitted < *deadline) continue;
    s->channel->publish({ends_.of(*s, FinishReason::error, late)});
    expired.push_back(s.get());
  }
  remove(expired);
}

// Requests with a picture that cannot be computed end here.
void EngineCore::drop_unseen() {
  if (reuse_.towers() == nullptr || metrics_.pictures.failed.value() == failed_pictures_) return;
  failed_pictures_ = metrics_.pictures.failed.value();
  std::vector<const Sequence*> gone;
  sequences_.for_each([&](Sequence& s) {
    const Error* error = s.pictures.error();
    if (error == nullptr) return;
    s.channel->publish({ends_.of(s, FinishReason::error, *error)});
    reuse_.release(s);
    gone.push_back(&s);
  });
  remove(gone);
}

void EngineCore::plan_running(StepPlan& plan, int& prompt_budget) {
  const auto& running = sequences_.running;
  for (const auto& s : running) reuse_.read_anew_if_longer(*s);
  std::vector<RunningNeed> needs;
  for (const auto& s : running) needs.push_back({s->to_compute(), s->generated() > 0});
  const std::vector<int> chunks = running_chunks(needs, prompt_budget);
  LogprobRows logprob_rows;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] == 0) continue;
    const int most = needs[i].to_compute > 1 ? std::min(chunks[i], std::max(prompt_budget, 0)) : chunks[i];
    const int count = running[i]->chunk_within(logprob_rows.cap(*running[i], most));
    if (needs[i].to_compute > 1) prompt_budget -= count;
    if (count > 0) plan.chunks.push_back({running[i].get(), count});
  }
}

}  // namespace espalier
