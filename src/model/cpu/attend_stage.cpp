#include "model/cpu/attend_stage.h"

namespace espalier {

AttendStage::AttendStage(const AttendOp& op, const Program& program, Place queries, Place out,
                         std::optional<ConvertedRows> converted, bool exact)
    : field_(op.field), queries_(queries), out_(out), converted_(converted) {
  const TokenField& field = program.keeps.per_token[static_cast<std::size_t>(op.field)];
  shape_ = {op.heads, field.heads, field.key_dim, op.visibility.kind == Visibility::Kind::all ? 0 : op.visibility.size, op.scale, exact};
}

void AttendStage::run(Pass& pass) {
  pass.plan(shape_).run(pass.with().cpu, pass.with().team, pass.field(field_), queries_.first, queries_.stride,
                        out_.first, out_.stride, converted_);
}

}  // namespace espalier
