#include "model/cpu/attend_stage.h"

namespace espalier {

AttendStage::AttendStage(const AttendOp& op, const Program& program, Place queries, Place out,
                         std::optional<ConvertedRows> converted, bool exact)
    : field_(op.field), queries_(queries), out_(out), converted_(converted) {
  const auto vector = [&](VectorId id) {
    return id < 0 ? nullptr : program.vectors[static_cast<std::size_t>(id)].data();
  };
  const TokenField& field = program.keeps.per_token[static_cast<std::size_t>(op.field)];
  shape_.heads = op.heads;
  shape_.kv_heads = field.heads;
  shape_.key_dim = field.key_dim;
  shape_.value_dim = field.value_dim;
  shape_.visible = op.visibility;
  shape_.scale = op.scale;
  shape_.exact = exact;
  shape_.cap = op.cap;
  shape_.slopes = vector(op.slopes);
  sinks_ = vector(op.sinks);
}

void AttendStage::run(Pass& pass) {
  AttentionRows rows{queries_.first, queries_.stride, out_.first, out_.stride};
  rows.converted = converted_;
  rows.sinks = sinks_;
  pass.plan(shape_).run(pass.with().cpu, pass.with().team, pass.field(field_), rows);
}

}  // namespace espalier
