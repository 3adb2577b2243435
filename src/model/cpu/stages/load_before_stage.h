// load_before_stage.h: what a latent field has of the position before each row.
//
// A stage of its own: rows of the same batch may have stored it just before.
#pragma once

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Reads the stored row of the position before each row.
class LoadBeforeStage final : public Stage {
 public:
  LoadBeforeStage(const LoadBeforeOp& op, const Program& program, Place out)
      : id_(op.field), field_(program.keeps.per_token[static_cast<std::size_t>(op.field)]), out_(out) {}
  void run(Pass& pass) override;

 private:
  FieldId id_;
  TokenField field_;
  Place out_;
};

}  // namespace espalier
