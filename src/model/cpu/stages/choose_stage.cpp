#include "model/cpu/stages/choose_stage.h"

namespace espalier {

ChooseStage::ChooseStage(const ChooseOp& op, const Program& program, Place queries, Place weights, bool exact)
    : field_(op.field), mask_(op.mask), shape_{}, queries_(queries), weights_{weights.first, weights.stride} {
  if (op.constant_weights >= 0) weights_ = {program.vectors[static_cast<std::size_t>(op.constant_weights)].data(), 0};
  shape_.heads = op.heads;
  shape_.dim = program.keeps.per_token[static_cast<std::size_t>(op.field)].key_dim;
  shape_.scale = op.scale;
  shape_.each_head = weights_.first == nullptr;
  shape_.exact = exact;
  shape_.top = op.kept;
  shape_.run = op.run;
  shape_.local_runs = op.local_runs;
  shape_.entry_stride = op.every;
}

void ChooseStage::run(Pass& pass) {
  const IndexRows rows{queries_.first, queries_.stride, weights_.first, weights_.stride};
  pass.index_plan(shape_).run(pass.with().cpu, pass.with().team, pass.field(field_), rows, chosen_);
  pass.set_mask(mask_, chosen_);
}

}  // namespace espalier
