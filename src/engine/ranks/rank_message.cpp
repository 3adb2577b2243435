#include "engine/ranks/rank_message.h"

namespace espalier {
namespace {

// The numbers of a sequence, without its lists.
struct PlainSequence {
  int row_begin, rows;
  std::int64_t first_position, rope_length, axis_shift;
  int state_in, state_out, adapter;
};

// A state that is wanted behind some rows.
struct PlainMark {
  int rows, cell;
};

void write_sequence(const BatchSequence& s, const BatchNumbers& numbers, MessageWriter& to) {
  to.put(PlainSequence{s.row_begin, s.rows, s.first_position, s.rope_length, s.axis_shift, numbers.cell_of(s.state_in),
                       numbers.cell_of(s.state_out), numbers.adapter_of(s.adapter)});
  std::vector<PlainMark> marks;
  for (const StateMark& mark : s.state_marks) marks.push_back({mark.rows, numbers.cell_of(mark.out)});
  to.put_all(s.runs).put_all(s.window_runs).put_all(std::span<const PlainMark>(marks));
  to.put_all(s.axes).put_all(s.span_first).put_all(s.span_last);
}

// Rows that the caller brings: most bring none.
void write_given(const Batch& batch, const BatchNumbers& numbers, MessageWriter& to) {
  to.put(batch.given.size());
  for (std::size_t input = 0; input < batch.given.size(); ++input) {
    std::vector<int> rows;
    std::vector<float> floats;
    for (std::size_t row = 0; row < batch.given[input].size(); ++row)
      if (const float* from = batch.given[input][row]) {
        rows.push_back(static_cast<int>(row));
        floats.insert(floats.end(), from, from + numbers.input_widths.at(input));
      }
    to.put_all(std::span<const int>(rows)).put_all(std::span<const float>(floats));
  }
}

}  // namespace

void write_batch(const Batch& batch, const BatchNumbers& numbers, MessageWriter& to) {
  to.put_all(batch.tokens).put_all(batch.slots).put_all(batch.window_slots);
  to.put_all(batch.logit_rows).put_all(batch.types);
  to.put(batch.sequences.size());
  for (const BatchSequence& s : batch.sequences) write_sequence(s, numbers, to);
  write_given(batch, numbers, to);
}

void ReadBatch::read_sequence(MessageReader& from, const BatchNumbers& numbers, Lists& lists) {
  const auto plain = from.take<PlainSequence>();
  std::vector<PlainMark> marks;
  from.take_all(lists.runs);
  from.take_all(lists.window_runs);
  from.take_all(marks);
  from.take_all(lists.axes);
  from.take_all(lists.span_first);
  from.take_all(lists.span_last);
  lists.marks.clear();
  for (const PlainMark& mark : marks) lists.marks.push_back({mark.rows, numbers.state_at(mark.cell)});
  BatchSequence s{plain.row_begin, plain.rows, plain.first_position, lists.runs};
  s.state_in = numbers.state_at(plain.state_in);
  s.state_out = numbers.state_at(plain.state_out);
  s.state_marks = lists.marks;
  s.rope_length = plain.rope_length;
  s.window_runs = lists.window_runs;
  s.axes = lists.axes;
  s.axis_shift = plain.axis_shift;
  s.span_first = lists.span_first;
  s.span_last = lists.span_last;
  s.adapter = numbers.adapter_at(plain.adapter);
  sequences_.push_back(s);
}

void ReadBatch::read_given(MessageReader& from, const BatchNumbers& numbers) {
  const auto inputs = from.take<std::size_t>();
  if (inputs > numbers.input_widths.size()) throw std::runtime_error("a message between ranks has too many inputs");
  floats_.resize(inputs);
  given_.assign(inputs, {});
  inputs_.clear();
  for (std::size_t input = 0; input < inputs; ++input) {
    std::vector<int> rows;
    from.take_all(rows);
    from.take_all(floats_[input]);
    const auto width = static_cast<std::size_t>(numbers.input_widths[input]);
    given_[input].assign(tokens_.size(), nullptr);
    for (std::size_t i = 0; i < rows.size(); ++i)
      given_[input].at(static_cast<std::size_t>(rows[i])) = floats_[input].data() + i * width;
    inputs_.emplace_back(given_[input]);
  }
}

const Batch& ReadBatch::read(MessageReader& from, const BatchNumbers& numbers) {
  from.take_all(tokens_);
  from.take_all(slots_);
  from.take_all(window_slots_);
  from.take_all(logit_rows_);
  from.take_all(types_);
  lists_.resize(from.take<std::size_t>());
  sequences_.clear();
  for (Lists& lists : lists_) read_sequence(from, numbers, lists);
  read_given(from, numbers);
  batch_ = Batch{tokens_, slots_, sequences_, logit_rows_};
  batch_.window_slots = window_slots_;
  batch_.given = inputs_;
  batch_.types = types_;
  return batch_;
}

}  // namespace espalier
