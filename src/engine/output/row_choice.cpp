#include "engine/output/row_choice.h"

#include <algorithm>
#include <limits>

namespace espalier {

void RowChoice::choose(StepPlan& plan) const {
  const int in_batch = static_cast<int>(sequences_.running.size());
  Room room{std::min(options_.max_running - in_batch, memory_.state_room()),
            std::min(memory_.room(), memory_.window_room())};
  for (const auto& [s, count] : plan.chunks) {
    if (s->request->fields().pooled) {
      add_pooled({s, count}, plan);
      continue;
    }
    const int logprobs_from = s->wants_prompt_logprobs() ? std::max(1, s->request->fields().logprobs.prompt_start) - 1
                                                         : std::numeric_limits<int>::max();
    const int end = s->computed + count;
    for (int position = std::max(s->computed, std::min(logprobs_from, s->known() - 1)); position < end; ++position) {
      const bool predicts_prompt = position >= logprobs_from && position + 1 < s->prompt_tokens();
      const bool predicts_next = position + 1 >= s->known() && s->remaining_output() > 0;
      if (predicts_prompt || predicts_next) plan.rows.push_back(wanted(*s, position, *s));
    }
    if (end == s->prompt_tokens() && s->generated() == 0) add_other_choices(plan, *s, room);
  }
}

void RowChoice::add_pooled(const ScheduledChunk& chunk, StepPlan& plan) const {
  const Sequence& s = *chunk.sequence;
  const PooledFields& wanted = *s.request->fields().pooled;
  const Pooling how = wanted.each ? Pooling::each : options_.pooling->how;
  for (int position = s.computed; position < s.computed + chunk.count; ++position)
    if (pools_row(how, position, s.known(), wanted.leave_out))
      plan.rows.push_back({&s, position, &s, -1, nullptr, true});
}

// The other choices of a request whose prompt is done with this chunk take their first token from the same logits.
void RowChoice::add_other_choices(StepPlan& plan, const Sequence& first, Room& room) const {
  if (first.request->sampling().n == 1 || first.remaining_output() == 0 || !options_.radix_cache ||
      first.request->fields().logprobs.prompt_start >= 0)
    return;
  for (const auto& s : sequences_.waiting) {
    if (s->request != first.request || s->generated() > 0) continue;
    const auto has_it = [&](const WantedRow& row) { return row.sequence == s.get(); };
    if (std::ranges::any_of(plan.rows, has_it)) continue;  // two choices may end the prompt in one step
    const int need = demand_.further(*s);
    if (room.places <= 0 || need > room.tokens) return;
    --room.places;
    room.tokens -= need;
    plan.rows.push_back(wanted(*s, s->prompt_tokens() - 1, first));
  }
}

// A row whose next token is wanted knows what the constraint says of it.
WantedRow RowChoice::wanted(const Sequence& s, int position, const Sequence& computed_by) const {
  WantedRow row{&s, position, &computed_by, -1, nullptr, true};
  const int offset = position + 1 - s.known();
  if (!s.text || s.broken || offset < 0) return row;
  const auto place = offset == 0 ? s.text.place() : s.places[static_cast<std::size_t>(offset)];
  row.forced = place.ends && !options_.end_tokens.empty() ? options_.end_tokens.front() : place.forced;
  row.may_end = !place.waits;
  if (row.forced >= 0 || !place.holds) return row;
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
void RowChoice::start_masks(const StepPlan& plan) {
  for (const WantedRow& row : plan.rows) {
    if (!row.mask || !row.mask->claim() || row.mask->ready()) continue;
    metrics_.masks.add();
    const bool taken =
        queue_ && queue_->submit(row.sequence->text.grammar().get(), [mask = row.mask] { mask->work(); });
    if (!taken) row.mask->work();
  }
}

}  // namespace espalier
