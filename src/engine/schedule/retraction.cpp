#include "engine/schedule/retraction.h"

#include <algorithm>

namespace espalier {

void Retraction::secure(StepPlan& plan) {
  for (std::size_t i = 0; i < plan.chunks.size();) {
    if (memory_.take(plan.chunks[i])) {
      ++i;
      continue;
    }
    // Alone, and still no room: pins give way before a request does.
    if (sequences_.running.size() == 1 && memory_.pins().give_up_oldest()) continue;
    Sequence& given_up = victim();
    const auto at = std::ranges::find(plan.chunks, &given_up, &ScheduledChunk::sequence);
    if (at != plan.chunks.end() && at < plan.chunks.begin() + static_cast<std::ptrdiff_t>(i)) --i;
    demand_.retracted();
    put_back(given_up, plan, sequences_.waiting);
  }
  for (const ScheduledChunk& chunk : plan.chunks) memory_.states().take_marks(*chunk.sequence, chunk.count);
}

Sequence& Retraction::victim() const {
  std::vector<RunningView> views;
  for (const auto& s : sequences_.running)
    views.push_back({s->arrival, s->held.tokens_only_its_own(memory_.tree()), s->request->fields().priority,
                     s->request->fields().background});
  return *sequences_.running[static_cast<std::size_t>(retraction_victim(views))];
}

void Retraction::put_back(Sequence& victim, StepPlan& plan, SequenceList& to) {
  metrics_.preemptions.add();
  metrics_.retracted_tokens.add(static_cast<std::uint64_t>(victim.computed));
  std::erase_if(plan.chunks, [&](const ScheduledChunk& c) { return c.sequence == &victim; });
  reuse_.release(victim);
  ++victim.retractions;
  victim.computed = 0;
  victim.read_again = 0;
  reuse_.name_scope(victim);
  victim.draft.clear();
  victim.draft_is_forced = false;
  victim.peeked = victim.drafting.peeked = {};
  victim.view.matched = 0;
  victim.view.output = victim.remaining_output();
  if (!victim.prompt_logprobs_sent) victim.prompt_logprobs = {};
  const auto is_it = [&](const auto& s) { return s.get() == &victim; };
  const auto owner = std::ranges::find_if(sequences_.running, is_it);
  const auto place = std::ranges::find_if(to, [&](const auto& s) { return s->arrival > victim.arrival; });
  to.insert(place, std::move(*owner));
  sequences_.running.erase(owner);
}

}  // namespace espalier
