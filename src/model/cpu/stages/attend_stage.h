// attend_stage.h: attention of one layer over what is stored of the tokens before, in one part or in two under one
// softmax.
#pragma once

#include <optional>

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Attends for all rows of a batch.
class AttendStage final : public Stage {
 public:
  // states: [rows][state_width() floats] where there is a second part.
  AttendStage(const AttendOp& op, const Program& program, Place queries, Place out, float* states,
              std::optional<ConvertedRows> converted, bool exact);
  void run(Pass& pass) override;
  bool by_rows() const override { return true; }

  // Floats that stand between two parts, of one row.
  static std::int64_t state_width(const AttendOp& op, const Program& program);

 private:
  FieldId field_, then_;
  MaskId mask_, then_mask_;
  AttendOp::Around around_;
  AttentionShape shape_, then_shape_;
  Place queries_, out_;
  float* states_;
  std::optional<ConvertedRows> converted_;
  const float* sinks_;
};

}  // namespace espalier
