#include "engine/run/ragged_batch.h"

#include "engine/step/sequence.h"

namespace espalier {

void RaggedBatch::clear() {
  tokens_.clear();
  slots_.clear();
  window_slots_.clear();
  sequences_.clear();
  runs_.clear();
  run_ends_.clear();
  window_runs_.clear();
  window_run_ends_.clear();
  marks_.clear();
  mark_ends_.clear();
  logit_rows_.clear();
}

int RaggedBatch::add(const Sequence& sequence, const HeldTokens& held, int first, int count) {
  const int row_begin = static_cast<int>(tokens_.size());
  sequences_.push_back({.row_begin = row_begin, .rows = count, .first_position = first, .runs = {}});
  held.for_each_extent([&](const Extent& e) { runs_.push_back({e.start, e.length}); });
  run_ends_.push_back(runs_.size());
  held.for_each_window_extent(first, [&](const Extent& e) { window_runs_.push_back({e.start, e.length}); });
  window_run_ends_.push_back(window_runs_.size());
  mark_ends_.push_back(marks_.size());
  for (int position = first; position < first + count; ++position) {
    tokens_.push_back(sequence.token_at(position));
    slots_.push_back(held.slot_at(position));
    if (held.windows() != nullptr) window_slots_.push_back(held.windows()->of(slots_.back()));
  }
  return row_begin;
}

int RaggedBatch::want_logits(int row) {
  if (logit_rows_.empty() || logit_rows_.back() != row) logit_rows_.push_back(row);
  return static_cast<int>(logit_rows_.size()) - 1;
}

Batch RaggedBatch::finish() {
  std::size_t begin = 0, window = 0, mark = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    sequences_[i].runs = std::span(runs_).subspan(begin, run_ends_[i] - begin);
    sequences_[i].state_marks = std::span(marks_).subspan(mark, mark_ends_[i] - mark);
    sequences_[i].window_runs = std::span(window_runs_).subspan(window, window_run_ends_[i] - window);
    begin = run_ends_[i];
    window = window_run_ends_[i];
    mark = mark_ends_[i];
  }
  return {tokens_, slots_, sequences_, logit_rows_, nullptr, window_slots_};
}

}  // namespace espalier
