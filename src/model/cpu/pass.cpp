#include "model/cpu/pass.h"

#include <algorithm>

namespace espalier {

Pass::Pass(const Batch& batch, const KvView& kv, const ComputeWith& with)
    : batch_(batch),
      kv_(kv),
      with_(with),
      tokens_(batch.tokens.begin(), batch.tokens.end()),
      sequences_(batch.sequences.begin(), batch.sequences.end()) {
  position_.resize(tokens_.size());
  rope_length_.resize(tokens_.size());
  for (const BatchSequence& s : sequences_) {
    const std::int64_t end = s.first_position + s.rows;
    positions_end_ = std::max(positions_end_, end);
    for (int i = 0; i < s.rows; ++i) {
      const auto row = static_cast<std::size_t>(s.row_begin) + static_cast<std::size_t>(i);
      position_[row] = s.first_position + i;
      rope_length_[row] = std::max(end, s.rope_length);
    }
  }
}

std::vector<AttentionSequence> Pass::attention_sequences(bool in_window_slots) const {
  std::vector<AttentionSequence> sequences;
  for (const BatchSequence& s : sequences_)
    sequences.push_back({s.row_begin, s.rows, s.first_position, in_window_slots ? s.window_runs : s.runs});
  return sequences;
}

std::vector<Slot> Pass::slots_before(FieldId of) const {
  std::vector<Slot> before(tokens_.size(), -1);
  for (const BatchSequence& s : sequences_) {
    std::int64_t left = s.first_position - 1;  // of the position wanted, in the runs at hand
    for (const KvRun& run : s.runs) {
      if (left < 0) break;
      if (left < run.length) before[static_cast<std::size_t>(s.row_begin)] = run.start + static_cast<Slot>(left);
      left -= run.length;
    }
    for (int i = 1; i < s.rows; ++i)
      before[static_cast<std::size_t>(s.row_begin) + static_cast<std::size_t>(i)] = slot(s.row_begin + i - 1, of);
  }
  return before;
}

AttentionPlan& Pass::plan(const AttentionShape& shape, FieldId of) {
  const bool in_windows = in_window_slots(of);
  for (Planned& known : plans_)
    if (known.shape == shape && known.in_window_slots == in_windows) return known.plan;
  plans_.push_back({shape, in_windows, AttentionPlan(shape, attention_sequences(in_windows), with_.team.size())});
  return plans_.back().plan;
}

IndexPlan& Pass::index_plan(const IndexShape& shape) {
  for (auto& [known, plan] : index_plans_)
    if (known == shape) return plan;
  return index_plans_.emplace_back(shape, IndexPlan(shape, attention_sequences(false), with_.team.size())).second;
}

void Pass::set_mask(MaskId id, SelectedPositions& chosen) {
  const auto at = static_cast<std::size_t>(id);
  if (masks_.size() <= at) masks_.resize(at + 1);
  masks_[at] = &chosen;
}

Selection Pass::mask(MaskId id) const {
  return id < 0 ? Selection{} : masks_[static_cast<std::size_t>(id)]->view();
}

void Pass::keep_wanted_rows() {
  std::vector<BatchSequence> kept;
  auto sequence = sequences_.begin();
  for (int to = 0; const int row : batch_.logit_rows) {
    while (row >= sequence->row_begin + sequence->rows) ++sequence;
    const auto from = static_cast<std::size_t>(row), at = static_cast<std::size_t>(to);
    tokens_[at] = tokens_[from];
    position_[at] = position_[from];
    rope_length_[at] = rope_length_[from];
    if (!kept.empty() && kept.back().runs.data() == sequence->runs.data() &&
        kept.back().first_position + kept.back().rows == position_[at]) {
      ++kept.back().rows;
    } else {
      kept.push_back(*sequence);
      kept.back().row_begin = to;
      kept.back().rows = 1;
      kept.back().first_position = position_[at];
    }
    ++to;
  }
  for (auto* list : {&position_, &rope_length_}) list->resize(batch_.logit_rows.size());
  tokens_.resize(batch_.logit_rows.size());
  sequences_ = std::move(kept);
  plans_.clear();
  index_plans_.clear();
  for (SelectedPositions* mask : masks_)
    if (mask != nullptr) mask->keep_rows(batch_.logit_rows);
}

}  // namespace espalier
