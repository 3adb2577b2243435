#include "model/cpu/stages/sequence_stages.h"

#include <algorithm>

namespace espalier {
namespace {

const float* values(const Program& program, VectorId id) {
  return id < 0 ? nullptr : program.vectors[static_cast<std::size_t>(id)].data();
}

const float* state_in(const BatchSequence& s, std::size_t first) {
  return s.state_in != nullptr ? s.state_in + first : nullptr;
}
float* state_out(const BatchSequence& s, std::size_t first) {
  return s.state_out != nullptr ? s.state_out + first : nullptr;
}

// Calls body(part) for the rows of a sequence up to each state that is wanted of it, one part after the other.
template <class Body>
void over_parts(BatchSequence s, Body body) {
  const int end = s.row_begin + s.rows, begin = s.row_begin;
  float* const state_out = s.state_out;
  for (const StateMark& mark : s.state_marks) {
    s.rows = begin + mark.rows - s.row_begin;
    s.state_out = mark.out;
    body(s);
    s.row_begin += s.rows;
    s.state_in = mark.out;
  }
  s.rows = end - s.row_begin;
  s.state_out = state_out;
  body(s);
}

// Calls body(sequence, begin, end) for pieces of `width` columns of every sequence, a multiple of sixteen each.
template <class Body>
void over_columns(Pass& pass, int width, int each, Body body) {
  const int pieces = (width + each - 1) / each;
  const auto sequences = pass.sequences();
  pass.with().team.run(static_cast<int>(sequences.size()) * pieces, [&](int chunk) {
    const int begin = chunk % pieces * each;
    over_parts(sequences[static_cast<std::size_t>(chunk / pieces)],
               [&](const BatchSequence& part) { body(part, begin, std::min(width, begin + each)); });
  });
}

}  // namespace

ConvolveStage::ConvolveStage(const ConvolveOp& op, const Program& program, Place in, Place out)
    : op_(op), in_(in), out_(out), weights_(values(program, op.weights)), bias_(values(program, op.bias)) {}

void ConvolveStage::run(Pass& pass) {
  const int width = op_.in.width;
  over_columns(pass, width, 512, [&](const BatchSequence& s, int begin, int end) {
    ConvolutionTask task{};
    task.x = in_.row(s.row_begin);
    task.x_stride = in_.stride;
    task.y = out_.row(s.row_begin);
    task.y_stride = out_.stride;
    task.weights = weights_;
    task.bias = bias_;
    task.state_in = state_in(s, op_.state);
    task.state_out = state_out(s, op_.state);
    task.channels = width;
    task.begin = begin;
    task.end = end;
    task.rows = s.rows;
    task.taps = op_.taps;
    task.silu = op_.silu;
    pass.with().cpu.recurrence.convolve(task);
  });
}

RecurrenceStage::RecurrenceStage(const RecurrenceOp& op, const Program& program, const Places& places)
    : op_(op), at_(places), constant_decay_(values(program, op.constant_decay)), skip_(values(program, op.skip)) {}

LinearRecurrenceTask RecurrenceStage::task_of(const BatchSequence& s, int head) const {
  const int key_head = op_.in_turns ? head % op_.key_heads : head / (op_.heads / op_.key_heads);
  LinearRecurrenceTask task{};
  task.q = at_.queries.row(s.row_begin) + key_head * op_.key_dim;
  task.k = at_.keys.row(s.row_begin) + key_head * op_.key_dim;
  task.v = at_.values.row(s.row_begin) + head * op_.value_dim;
  task.out = at_.out.row(s.row_begin) + head * op_.value_dim;
  task.q_stride = at_.queries.stride;
  task.k_stride = at_.keys.stride;
  task.v_stride = at_.values.stride;
  task.out_stride = at_.out.stride;
  if (constant_decay_) {
    task.state_decay = StateDecay::scalar;
    task.decay = constant_decay_ + head;
  } else if (at_.decay) {
    const int each = op_.decay.width / op_.heads;
    task.state_decay = each == 1 ? StateDecay::scalar : StateDecay::vector;
    task.decay = at_.decay.row(s.row_begin) + head * each;
    task.decay_stride = at_.decay.stride;
  }
  if (at_.beta) {
    task.beta = at_.beta.row(s.row_begin) + head;
    task.beta_stride = at_.beta.stride;
  }
  if (at_.probe) {
    task.probe = at_.probe.row(s.row_begin) + head * op_.key_dim;
    task.probe_stride = at_.probe.stride;
    task.answer = at_.answer.row(s.row_begin) + head * op_.key_dim;
    task.answer_stride = at_.answer.stride;
  }
  const std::size_t state = op_.state + static_cast<std::size_t>(head) * static_cast<std::size_t>(op_.key_dim) *
                                            static_cast<std::size_t>(op_.value_dim);
  task.state_in = state_in(s, state);
  task.state_out = state_out(s, state);
  task.dk = op_.key_dim;
  task.dv = op_.value_dim;
  task.rows = s.rows;
  task.delta_rule = op_.delta;
  task.scale = op_.scale;
  task.skip = skip_ ? skip_[head] : 0.0f;
  return task;
}

void RecurrenceStage::run(Pass& pass) {
  constexpr int kColumns = 64;  // of a task
  const int pieces = (op_.value_dim + kColumns - 1) / kColumns;
  over_columns(pass, op_.heads * pieces, 1, [&](const BatchSequence& s, int part, int) {
    LinearRecurrenceTask task = task_of(s, part / pieces);
    task.column_begin = part % pieces * kColumns;
    task.column_end = std::min(op_.value_dim, task.column_begin + kColumns);
    pass.with().cpu.recurrence.recur(task);
  });
}

ScanStage::ScanStage(const ScanOp& op, const Program& program, const Places& places)
    : op_(op), at_(places), rates_(values(program, op.rates)), skip_(values(program, op.skip)) {}

void ScanStage::run(Pass& pass) {
  const int width = op_.in.width;
  over_columns(pass, width, 64, [&](const BatchSequence& s, int begin, int end) {
    SelectiveScanTask task{};
    task.x = at_.in.row(s.row_begin);
    task.dt = at_.step.row(s.row_begin);
    task.b = at_.input.row(s.row_begin);
    task.c = at_.output.row(s.row_begin);
    task.y = at_.out.row(s.row_begin);
    task.x_stride = at_.in.stride;
    task.dt_stride = at_.step.stride;
    task.b_stride = at_.input.stride;
    task.c_stride = at_.output.stride;
    task.y_stride = at_.out.stride;
    task.a = rates_;
    task.d = skip_;
    task.state_in = state_in(s, op_.state);
    task.state_out = state_out(s, op_.state);
    task.channels = width;
    task.begin = begin;
    task.end = end;
    task.states = op_.size;
    task.rows = s.rows;
    pass.with().cpu.recurrence.scan(task);
  });
}

void FadingSumStage::run(Pass& pass) {
  const int width = op_.in.width;
  over_columns(pass, width, 512, [&](const BatchSequence& s, int begin, int end) {
    pass.with().cpu.recurrence.fade({in_.row(s.row_begin), decay_.row(s.row_begin), out_.row(s.row_begin), in_.stride,
                                     decay_.stride, out_.stride, state_in(s, op_.state), state_out(s, op_.state), begin,
                                     end, s.rows});
  });
}

}  // namespace espalier
