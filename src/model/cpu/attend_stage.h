// attend_stage.h: attention of one layer over what is stored of the tokens before.
#pragma once

#include <optional>

#include "model/cpu/stage.h"
#include "model/program/program.h"

namespace espalier {

class AttendStage final : public Stage {
 public:
  AttendStage(const AttendOp& op, const Program& program, Place queries, Place out,
              std::optional<ConvertedRows> converted, bool exact);
  void run(Pass& pass) override;

 private:
  FieldId field_;
  AttentionShape shape_;
  Place queries_, out_;
  std::optional<ConvertedRows> converted_;
  const float* sinks_;
};

}  // namespace espalier
