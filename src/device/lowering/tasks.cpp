#include "device/lowering/tasks.h"

namespace espalier::device {

cuda::AttendTask task_of(const AttendOp& op, FieldId id, const ProgramBuffers& at) {
  const TokenField& field = at.field(id);
  const BatchRows queries = at.rows(op.queries), out = at.rows(op.out);
  cuda::AttendTask task{};
  task.dims = {field.key_dim, field.value_dim};
  task.heads = op.heads;
  task.kv_heads = field.heads;
  task.score = {op.scale, op.cap, at.vector(op.slopes), {at.vector(op.biases), op.bias_reach}};
  task.entry_stride = 1;
  task.q = queries.first;
  task.q_stride = queries.stride;
  task.out = out.first;
  task.out_stride = out.stride;
  return task;
}

cuda::ChoosePositionsTask task_of(const ChooseOp& op, const ProgramBuffers& at) {
  const BatchRows queries = at.rows(op.queries), weights = at.maybe(op.weights);
  cuda::ChoosePositionsTask task{};
  task.heads = op.heads;
  task.dim = at.field(op.field).key_dim;
  task.scale = op.scale;
  task.each_head = !op.weights && op.constant_weights < 0;
  task.top = op.kept;
  task.run = op.run;
  task.local_runs = op.local_runs;
  task.entry_stride = op.every;
  task.q = queries.first;
  task.q_stride = queries.stride;
  task.weights = op.weights ? weights.first : at.vector(op.constant_weights);
  task.weight_stride = weights.stride;
  return task;
}

cuda::LoadTokensTask task_of(const LoadBeforeOp& op, const ProgramBuffers& at) {
  const TokenField& field = at.field(op.field);
  const BatchRows out = at.rows(op.out);
  cuda::LoadTokensTask task{};
  task.heads = field.heads;
  task.key_dim = field.key_dim;
  task.out = out.first;
  task.out_stride = out.stride;
  return task;
}

cuda::ConvolveTask task_of(const ConvolveOp& op, const ProgramBuffers& at) {
  const BatchRows in = at.rows(op.in), out = at.rows(op.out);
  cuda::ConvolveTask task{};
  task.of.x = in.first;
  task.of.x_stride = in.stride;
  task.of.y = out.first;
  task.of.y_stride = out.stride;
  task.of.weights = at.vector(op.weights);
  task.of.bias = at.vector(op.bias);
  task.of.channels = task.of.end = op.in.width;
  task.of.taps = op.taps;
  task.of.silu = op.silu;
  task.state = op.state;
  return task;
}

cuda::RecurTask task_of(const RecurrenceOp& op, const ProgramBuffers& at) {
  cuda::RecurTask task{};
  task.queries = at.rows(op.queries);
  task.keys = at.rows(op.keys);
  task.values = at.rows(op.values);
  task.decay = at.maybe(op.decay);
  task.beta = at.maybe(op.beta);
  task.probe = at.maybe(op.probe);
  task.answer = at.maybe(op.answer);
  task.out = at.rows(op.out);
  task.constant_decay = at.vector(op.constant_decay);
  task.skip = at.vector(op.skip);
  task.heads = op.heads;
  task.key_heads = op.key_heads;
  task.key_dim = op.key_dim;
  task.value_dim = op.value_dim;
  task.decay_width = op.decay.width;
  task.in_turns = op.in_turns;
  task.delta = op.delta;
  task.scale = op.scale;
  task.state = op.state;
  return task;
}

cuda::ScanTask task_of(const ScanOp& op, const ProgramBuffers& at) {
  const BatchRows in = at.rows(op.in), step = at.rows(op.step), input = at.rows(op.input), output = at.rows(op.output),
                  out = at.rows(op.out);
  cuda::ScanTask task{};
  task.of.x = in.first;
  task.of.x_stride = in.stride;
  task.of.dt = step.first;
  task.of.dt_stride = step.stride;
  task.of.b = input.first;
  task.of.b_stride = input.stride;
  task.of.c = output.first;
  task.of.c_stride = output.stride;
  task.of.y = out.first;
  task.of.y_stride = out.stride;
  task.of.a = at.vector(op.rates);
  task.of.d = at.vector(op.skip);
  task.of.channels = task.of.end = op.in.width;
  task.of.states = op.size;
  task.state = op.state;
  return task;
}

cuda::FadeTask task_of(const FadingSumOp& op, const ProgramBuffers& at) {
  const BatchRows in = at.rows(op.in), decay = at.rows(op.decay), out = at.rows(op.out);
  cuda::FadeTask task{};
  task.of = {in.first, decay.first, out.first,   in.stride, decay.stride, out.stride, nullptr,
             nullptr,  0,           op.in.width, 0};
  task.state = op.state;
  return task;
}

cuda::CompressTask task_of(const CompressOp& op, const ProgramBuffers& at) {
  cuda::CompressTask task{};
  task.values = at.rows(op.values);
  task.gates = at.maybe(op.gates);
  task.out = at.rows(op.out);
  task.bias = at.vector(op.bias);
  task.width = op.out.width;
  task.gate_width = op.gates.width;
  task.every = op.every;
  task.overlapping = op.overlapping;
  task.state = op.state;
  return task;
}

}  // namespace espalier::device
