#include "model/cpu/pass.h"

#include <algorithm>

namespace espalier {
namespace {

// The rows of a slice, of each sequence that has some of them.
void cut_to(RowSlice slice, std::vector<AttentionSequence>& sequences) {
  for (AttentionSequence& s : sequences) {
    const int before = std::clamp(slice.begin - s.row_begin, 0, s.rows);
    const int left = std::clamp(slice.end - s.row_begin, before, s.rows) - before;
    s.row_begin += before;
    s.first_position += before;
    s.rows = left;
    const auto from = static_cast<std::size_t>(before), count = static_cast<std::size_t>(left);
    if (!s.last.empty()) s.last = s.last.subspan(from, count);
    if (!s.from.empty()) s.from = s.from.subspan(from, count);
  }
  std::erase_if(sequences, [](const AttentionSequence& s) { return s.rows == 0; });
}

}  // namespace

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
  rows_ = batch.rows();
  take_axes();
  group_by_adapter();
}

void Pass::group_by_adapter() {
  adapted_.clear();
  adapter_of_row_.clear();
  for (const BatchSequence& s : sequences_) {
    if (s.adapter == nullptr) continue;
    adapter_of_row_.resize(tokens_.size(), nullptr);
    auto group = std::ranges::find(adapted_, s.adapter, &AdaptedRows::adapter);
    if (group == adapted_.end()) group = adapted_.insert(adapted_.end(), AdaptedRows{s.adapter, {}});
    for (int row = s.row_begin; row < s.row_begin + s.rows; ++row) {
      group->rows.push_back(row);
      adapter_of_row_[static_cast<std::size_t>(row)] = s.adapter;
    }
  }
}

void Pass::take_axes() {
  const auto turned = [](const BatchSequence& s) { return !s.axes.empty() || s.axis_shift != 0; };
  if (std::ranges::none_of(sequences_, turned)) return;
  axes_.resize(tokens_.size());
  for (const BatchSequence& s : sequences_)
    for (int i = 0; i < s.rows; ++i) {
      AxisPositions& at = axes_[static_cast<std::size_t>(s.row_begin) + static_cast<std::size_t>(i)];
      if (s.axes.empty())
        at.fill(static_cast<std::int32_t>(std::max<std::int64_t>(0, s.first_position + i + s.axis_shift)));
      else
        at = s.axes[static_cast<std::size_t>(i)];
      positions_end_ = std::max<std::int64_t>(positions_end_, std::int64_t{std::ranges::max(at)} + 1);
    }
}

const float* Pass::given(int input, int row) const {
  const auto of = static_cast<std::size_t>(input);
  if (of >= batch_.given.size()) return nullptr;
  if (kept_) row = batch_.logit_rows[static_cast<std::size_t>(row)];
  return batch_.given[of][static_cast<std::size_t>(row)];
}

std::vector<AttentionSequence> Pass::attention_sequences(bool in_window_slots, AttendOp::Around around,
                                                         const Visibility& visible) {
  std::span<const BatchSequence> all = sequences_;
  if (around == AttendOp::Around::window) all = batch_.pictures->windows;
  if (around == AttendOp::Around::merged) all = batch_.pictures->merged;
  std::vector<AttentionSequence> sequences;
  for (const BatchSequence& s : all) {
    AttentionSequence& added = sequences.emplace_back(
        AttentionSequence{s.row_begin, s.rows, s.first_position, in_window_slots ? s.window_runs : s.runs});
    if (around == AttendOp::Around::none) continue;
    added.last = s.span_last;
    if (around == AttendOp::Around::near && visible.rule == Visibility::Rule::window && !s.span_last.empty()) {
      std::vector<std::int32_t>& last = near_last_.emplace_back();
      for (int i = 0; i < s.rows; ++i)
        last.push_back(static_cast<std::int32_t>(
            std::min<std::int64_t>(s.span_last[static_cast<std::size_t>(i)], s.first_position + i + visible.size - 1)));
      added.last = last;
      continue;
    }
    if (around != AttendOp::Around::span_ahead) added.from = s.span_first;
  }
  if (sliced_) cut_to(slice_, sequences);
  return sequences;
}

void Pass::take_rows(RowSlice slice) {
  sliced_ = true;
  slice_ = slice;
  slice_plans_.clear();
}

void Pass::take_all_rows() {
  sliced_ = false;
  slice_plans_.clear();
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

AttentionPlan& Pass::plan(const AttentionShape& shape, FieldId of, AttendOp::Around around) {
  const bool in_windows = in_window_slots(of);
  auto& plans = sliced_ ? slice_plans_ : plans_;
  for (Planned& known : plans)
    if (known.shape == shape && known.in_window_slots == in_windows && known.around == around) return known.plan;
  plans.push_back({shape, in_windows, around,
                   AttentionPlan(shape, attention_sequences(in_windows, around, shape.visible), with_.team.size())});
  return plans.back().plan;
}

IndexPlan& Pass::index_plan(const IndexShape& shape) {
  for (auto& [known, plan] : index_plans_)
    if (known == shape) return plan;
  return index_plans_
      .emplace_back(shape, IndexPlan(shape, attention_sequences(false, AttendOp::Around::none), with_.team.size()))
      .second;
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
    if (has_axes()) axes_[at] = axes_[from];
    if (!kept.empty() && kept.back().runs.data() == sequence->runs.data() &&
        kept.back().first_position + kept.back().rows == position_[at]) {
      ++kept.back().rows;
    } else {
      kept.push_back(*sequence);
      kept.back().row_begin = to;
      kept.back().rows = 1;
      kept.back().first_position = position_[at];
      const auto behind = static_cast<std::size_t>(row - sequence->row_begin);
      if (!sequence->span_first.empty()) kept.back().span_first = sequence->span_first.subspan(behind);
      if (!sequence->span_last.empty()) kept.back().span_last = sequence->span_last.subspan(behind);
    }
    ++to;
  }
  for (auto* list : {&position_, &rope_length_}) list->resize(batch_.logit_rows.size());
  tokens_.resize(batch_.logit_rows.size());
  rows_ = static_cast<int>(tokens_.size());
  kept_ = true;
  sequences_ = std::move(kept);
  group_by_adapter();
  plans_.clear();
  index_plans_.clear();
  for (SelectedPositions* mask : masks_)
    if (mask != nullptr) mask->keep_rows(batch_.logit_rows);
}

}  // namespace espalier
