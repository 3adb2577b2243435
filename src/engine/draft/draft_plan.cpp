#include "engine/draft/draft_plan.h"

#include <algorithm>
#include <utility>

namespace espalier {

void DraftPlan::add(StepPlan& plan, int budget) {
  const auto concerned = [&](const ScheduledChunk& chunk) {
    return static_cast<bool>(chunk.sequence->text) || drafts_.on(*chunk.sequence);
  };
  if (std::ranges::none_of(plan.chunks, concerned)) return;
  int room = std::min({budget, memory_.room(), memory_.window_room()});
  add_forced(plan, room);
  if (plan.decoding_rows() > 0) propose(plan, room);  // beside a prompt chunk a row is dear
  for (ScheduledChunk& chunk : plan.chunks) {
    Sequence& s = *chunk.sequence;
    if (s.text.busy()) s.draft.clear();
    const std::int64_t alike = options_.rope_lengths.longest_alike(s.known()) - s.known();
    if (std::cmp_greater(s.draft.size(), alike)) s.draft.resize(static_cast<std::size_t>(alike));
    if (s.text && !s.draft.empty()) cut_to_constraint(s);
    if (s.draft.empty()) s.draft_is_forced = false;
    chunk.count += static_cast<int>(s.draft.size());
  }
}

// Text that must come, of those who want its tokens' log-probabilities. Penalties would have to count them as they
// come.
void DraftPlan::add_forced(StepPlan& plan, int& room) {
  for (const ScheduledChunk& chunk : plan.chunks) {
    Sequence& s = *chunk.sequence;
    const auto forced = s.text.forced();
    if (!options_.jump_forward || forced.size() < 2 || output_.jumps(s)) continue;
    if (s.to_compute() != chunk.count || s.request->sampling().penalises()) continue;
    const int most = std::min({static_cast<int>(forced.size()) - 1, room, s.remaining_output() - 1, kMostJumped});
    if (most <= 0 || s.known() == s.prompt_tokens()) continue;
    s.draft.assign(forced.begin(), forced.begin() + most);
    s.draft_is_forced = true;
    room -= most;
  }
}

void DraftPlan::propose(StepPlan& plan, int room) {
  std::vector<Sequence*> sequences;
  for (const ScheduledChunk& chunk : plan.chunks)
    if (drafts_.on(*chunk.sequence) && chunk.sequence->draft.empty() && chunk.count == chunk.sequence->to_compute())
      sequences.push_back(chunk.sequence);
  if (!sequences.empty()) drafts_.propose(sequences, room);
}

void DraftPlan::cut_to_constraint(Sequence& s) {
  auto places = s.text.along(s.draft, s.output(), {queue_, kGrammarWait});
  if (places.ok())
    s.places = std::move(places).value();
  else
    s.draft.clear(), s.places.clear();  // it ends when it goes on
}

void DraftPlan::settle(Sequence& s, int accepted, int rejected) {
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

}  // namespace espalier
