#include "engine/run/step_ahead.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// The rows of a chunk, from `first` on in the order of the plan.
std::span<const WantedRow> rows_of(const StepPlan& plan, const ScheduledChunk& chunk, std::size_t first) {
  std::size_t end = first;
  while (end < plan.rows.size() && plan.rows[end].computed_by == chunk.sequence) ++end;
  return std::span(plan.rows).subspan(first, end - first);
}

// Nothing but the model and the noise decides.
bool is_plain(const WantedRow& row) {
  return row.sequence == row.computed_by && row.forced < 0 && row.mask == nullptr && row.may_end;
}

}  // namespace

// As far as is known before the text is looked at for what stops it.
bool StepAhead::ends(const Sequence& s, const Outcome& outcome) const {
  const SamplingParams& p = s.request->sampling();
  if (s.remaining_output() <= 1) return true;
  const bool is_end = !p.ignore_eos && std::ranges::find(end_tokens_, outcome.token) != end_tokens_.end();
  return is_end || std::ranges::find(p.stop_token_ids, outcome.token) != p.stop_token_ids.end();
}

// False: the sequence goes on in a way that cannot be foreseen.
bool StepAhead::add(const ScheduledChunk& chunk, const WantedRow& row, const Outcome& outcome) {
  const Sequence& s = *chunk.sequence;
  if (!is_plain(row) || outcome.late || outcome.error) return false;
  if (ends(s, outcome)) return true;
  const int position = s.computed + chunk.count;
  const int batch_row = batch_.add_next(s.held, position, outcome.token);
  batch_.set_rope_length(s.rope_length);
  batch_.set_adapter(s.request->fields().adapter.get());
  if (s.pictures) batch_.set_axis_shift(s.pictures.of_prompt().shift);
  batch_.want_logits(batch_row);
  wanted_.push_back({.sequence = &s, .position = position, .computed_by = &s, .mask = nullptr});
  rows_.push_back({s.arrival, position, s.held.slot_at(position), outcome.token, s.request});
  return true;
}

void StepAhead::begin(const StepPlan& plan, std::span<const Outcome> outcomes) {
  batch_.clear();
  wanted_.clear();
  bool foreseen = true;
  std::size_t first = 0;
  for (const ScheduledChunk& chunk : plan.chunks) {
    const auto rows = rows_of(plan, chunk, first);
    foreseen = foreseen && rows.size() == 1 && add(chunk, rows.front(), outcomes[first]);
    first += rows.size();
  }
  drawn_.clear(rows_.size(), rows_.size());
  for (std::size_t i = 0; foreseen && i < rows_.size(); ++i) {
    drawn_.add(i, wanted_[i], static_cast<int>(i));
    foreseen = drawn_.has(i) && !drawn_.waits(i);
  }
  std::vector<Row> rows = std::exchange(rows_, {});
  if (!foreseen || rows.empty()) return;
  Batch batch = batch_.finish();
  batch.draws = drawn_.for_batch();
  model_.begin_forward(batch, kv_.view());
  rows_ = std::move(rows);  // a device that failed has begun nothing
  metrics_.ahead_rows.add(rows_.size());
}

const StepAhead::Row* StepAhead::find(const ScheduledChunk& chunk, std::span<const WantedRow> wanted) const {
  const Sequence& s = *chunk.sequence;
  if (chunk.count != 1 || wanted.size() != 1 || !is_plain(wanted.front()) || wanted.front().position != s.computed)
    return nullptr;
  const auto row = std::ranges::find(rows_, s.arrival, &Row::arrival);
  const bool same = row != rows_.end() && row->position == s.computed && row->token == s.token_at(s.computed) &&
                    row->slot == s.held.slot_at(s.computed);
  return same ? &*row : nullptr;
}

StepAhead::Rest StepAhead::take(const StepPlan& plan, std::span<Outcome> outcomes) {
  Rest rest;
  std::size_t first = 0, taken = 0;
  std::vector<std::pair<std::size_t, std::size_t>> found;  // of the plan's rows, of those that were begun
  for (const ScheduledChunk& chunk : plan.chunks) {
    const auto wanted = rows_of(plan, chunk, first);
    if (const Row* row = find(chunk, wanted)) {
      found.emplace_back(first, static_cast<std::size_t>(row - rows_.data()));
      ++taken;
    } else {
      rest.plan.chunks.push_back(chunk);
      for (std::size_t i = 0; i < wanted.size(); ++i) rest.rows.push_back(first + i);
      rest.plan.rows.insert(rest.plan.rows.end(), wanted.begin(), wanted.end());
    }
    first += wanted.size();
  }
  metrics_.ahead_rows_dropped.add(rows_.size() - taken);
  const std::vector<Row> held = std::exchange(rows_, {});  // until the model has read them
  model_.end_forward();
  drawn_.draw_rest();
  for (const auto& [of_plan, begun] : found) outcomes[of_plan] = drawn_.outcome(begun);
  return rest;
}

}  // namespace espalier
