#include "model/cpu/stages/attend_stage.h"

namespace espalier {
namespace {

const TokenField& field_of(const Program& program, FieldId id) {
  return program.keeps.per_token[static_cast<std::size_t>(id)];
}

AttentionShape shape_of(const AttendOp& op, const Program& program, FieldId id, bool exact) {
  const TokenField& field = field_of(program, id);
  AttentionShape shape{};
  shape.heads = op.heads;
  shape.kv_heads = field.heads;
  shape.key_dim = field.key_dim;
  shape.value_dim = field.value_dim;
  shape.scale = op.scale;
  shape.exact = exact;
  shape.cap = op.cap;
  shape.entry_stride = 1;
  if (op.slopes >= 0) shape.slopes = program.vectors[static_cast<std::size_t>(op.slopes)].data();
  if (op.biases >= 0) shape.bias = {program.vectors[static_cast<std::size_t>(op.biases)].data(), op.bias_reach};
  return shape;
}

}  // namespace

std::int64_t AttendStage::state_width(const AttendOp& op, const Program& program) {
  return op.then < 0 ? 0 : std::int64_t{op.heads} * FoldStates::stride_of(field_of(program, op.then).value_dim);
}

AttendStage::AttendStage(const AttendOp& op, const Program& program, Place queries, Place out, float* states,
                         std::optional<ConvertedRows> converted, bool exact)
    : field_(op.field),
      then_(op.then),
      mask_(op.mask),
      then_mask_(op.then_mask),
      around_(op.around),
      shape_(shape_of(op, program, op.field, exact)),
      then_shape_(shape_of(op, program, op.then < 0 ? op.field : op.then, exact)),
      queries_(queries),
      out_(out),
      states_(states),
      converted_(converted),
      sinks_(op.sinks < 0 ? nullptr : program.vectors[static_cast<std::size_t>(op.sinks)].data()) {
  shape_.visible = op.visibility;
  then_shape_.entry_stride = op.then_every;
}

void AttendStage::run(Pass& pass) {
  AttentionRows rows{queries_.first, queries_.stride, out_.first, out_.stride};
  rows.selection = pass.mask(mask_);
  const bool two_parts = then_ >= 0;
  if (two_parts) {
    rows.states = AttentionPlan::states_at(shape_, states_);
    rows.end_in_states = true;
    pass.plan(shape_, field_, around_).run(pass.with().cpu, pass.with().team, pass.field(field_), rows);
    rows.selection = pass.mask(then_mask_);
    rows.begin_in_states = true;
    rows.end_in_states = false;
  }
  rows.converted = converted_;
  rows.sinks = sinks_;
  const FieldId last = two_parts ? then_ : field_;
  const auto around = two_parts ? AttendOp::Around::none : around_;
  pass.plan(two_parts ? then_shape_ : shape_, last, around)
      .run(pass.with().cpu, pass.with().team, pass.field(last), rows);
}

}  // namespace espalier
