#include "engine/run/ragged_batch.h"

#include <algorithm>
#include <utility>

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
  types_.clear();
  for (auto& rows : pictures_.given) rows.clear();
  pictures_.axes.clear();
  pictures_.span_first.clear();
  pictures_.span_last.clear();
  pictures_.parts.clear();
}

int RaggedBatch::add(const Sequence& sequence, const HeldTokens& held, int first, int count) {
  const int row_begin = begin_sequence(held, first, count);
  for (int position = first; position < first + count; ++position) add_row(held, position, sequence.token_at(position));
  return row_begin;
}

int RaggedBatch::add_next(const HeldTokens& held, int position, TokenId token) {
  const int row_begin = begin_sequence(held, position, 1);
  add_row(held, position, token);
  return row_begin;
}

int RaggedBatch::begin_sequence(const HeldTokens& held, int first, int count) {
  const int row_begin = static_cast<int>(tokens_.size());
  sequences_.push_back({.row_begin = row_begin, .rows = count, .first_position = first, .runs = {}});
  held.for_each_extent([&](const Extent& e) { runs_.push_back({e.start, e.length}); });
  run_ends_.push_back(runs_.size());
  held.for_each_window_extent(first, [&](const Extent& e) { window_runs_.push_back({e.start, e.length}); });
  window_run_ends_.push_back(window_runs_.size());
  mark_ends_.push_back(marks_.size());
  return row_begin;
}

void RaggedBatch::add_row(const HeldTokens& held, int position, TokenId token) {
  tokens_.push_back(token);
  slots_.push_back(held.slot_at(position));
  if (held.windows() != nullptr) window_slots_.push_back(held.windows()->of(slots_.back()));
}

void RaggedBatch::add_pictures(const Sequence& s, int count, int inputs) {
  const PromptPictures& of_prompt = s.pictures.of_prompt();
  RaggedPictures::Part part{sequences_.size() - 1, pictures_.axes.size(), 0, pictures_.span_first.size(), 0};
  sequences_.back().axis_shift = of_prompt.shift;
  if (s.computed < s.prompt_tokens()) {
    give_rows(s, sequences_.back().row_begin, count, inputs);
    if (!of_prompt.axes.empty()) place_on_axes(s, count, part);
    if (!of_prompt.both_ways.empty()) join_spans(s, count, part);
  }
  if (part.axes + part.spans > 0) pictures_.parts.push_back(part);
}

void RaggedBatch::give_rows(const Sequence& s, int row_begin, int count, int inputs) {
  auto& given = pictures_.given;
  if (std::cmp_less(given.size(), inputs)) given.resize(static_cast<std::size_t>(inputs));
  for (const PromptPicture& picture : s.pictures.of_prompt().list)
    for (const TokenSpan& span : picture.spans)
      for (int at = std::max(span.begin, s.computed); at < std::min(span.end, s.computed + count); ++at)
        for (int input = 0; input < inputs; ++input) {
          auto& rows = given[static_cast<std::size_t>(input)];
          rows.resize(static_cast<std::size_t>(row_begin + at - s.computed) + 1);
          rows.back() = s.pictures.row(input, at);
        }
}

void RaggedBatch::place_on_axes(const Sequence& s, int count, RaggedPictures::Part& part) {
  const PromptPictures& of_prompt = s.pictures.of_prompt();
  for (int at = s.computed; at < s.computed + count; ++at) {
    AxisPositions place;
    place.fill(static_cast<std::int32_t>(at + of_prompt.shift));  // behind the prompt
    if (std::cmp_less(at, of_prompt.axes.size())) place = of_prompt.axes[static_cast<std::size_t>(at)];
    pictures_.axes.push_back(place);
  }
  part.axes = static_cast<std::size_t>(count);
}

void RaggedBatch::join_spans(const Sequence& s, int count, RaggedPictures::Part& part) {
  const auto from = static_cast<std::ptrdiff_t>(pictures_.span_first.size());
  for (auto* list : {&pictures_.span_first, &pictures_.span_last})
    for (int at = s.computed; at < s.computed + count; ++at) list->push_back(at);
  for (const TokenSpan& span : s.pictures.of_prompt().both_ways) {
    if (span.begin < s.computed || span.end > s.computed + count) continue;
    std::fill_n(pictures_.span_first.begin() + from + span.begin - s.computed, span.end - span.begin, span.begin);
    std::fill_n(pictures_.span_last.begin() + from + span.begin - s.computed, span.end - span.begin, span.end - 1);
  }
  part.spans = static_cast<std::size_t>(count);
}

void RaggedBatch::see_both_ways() {
  const auto rows = static_cast<std::size_t>(sequences_.back().rows);
  const RaggedPictures::Part part{sequences_.size() - 1, pictures_.axes.size(), 0, pictures_.span_first.size(), rows};
  pictures_.span_first.insert(pictures_.span_first.end(), rows, 0);
  pictures_.span_last.insert(pictures_.span_last.end(), rows, static_cast<std::int32_t>(rows) - 1);
  pictures_.parts.push_back(part);
}

void RaggedBatch::add_types(const Sequence& s) {
  const int second = s.request->fields().pooled->second_part, begin = std::max(second, s.computed);
  const BatchSequence& at = sequences_.back();
  if (second < 0 || begin >= s.computed + at.rows) return;
  types_.resize(static_cast<std::size_t>(at.row_begin + begin - s.computed), 0);
  types_.resize(static_cast<std::size_t>(at.row_begin) + static_cast<std::size_t>(at.rows), 1);
}

void RaggedBatch::finish_pictures(Batch& batch) {
  for (const RaggedPictures::Part& part : pictures_.parts) {
    BatchSequence& s = sequences_[part.sequence];
    s.axes = std::span(pictures_.axes).subspan(part.axes_begin, part.axes);
    s.span_first = std::span(pictures_.span_first).subspan(part.spans_begin, part.spans);
    s.span_last = std::span(pictures_.span_last).subspan(part.spans_begin, part.spans);
  }
  pictures_.inputs.clear();
  const bool none = std::ranges::all_of(pictures_.given, [](const auto& rows) { return rows.empty(); });
  if (none) return;
  for (auto& rows : pictures_.given) {
    rows.resize(tokens_.size());
    pictures_.inputs.push_back(rows);
  }
  batch.given = pictures_.inputs;
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
  Batch batch{tokens_, slots_, sequences_, logit_rows_, nullptr, window_slots_};
  if (!types_.empty()) {
    types_.resize(tokens_.size(), 0);
    batch.types = types_;
  }
  finish_pictures(batch);
  return batch;
}

}  // namespace espalier
