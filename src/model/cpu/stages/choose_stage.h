// choose_stage.h: which positions the attention of some layers reads, by index keys (kernels/attention/index_scores.h).
#pragma once

#include "kernels/attention/index_scores.h"
#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Chooses positions for all rows of a batch.
class ChooseStage final : public Stage {
 public:
  ChooseStage(const ChooseOp& op, const Program& program, Place queries, Place weights, bool exact);
  void run(Pass& pass) override;

 private:
  FieldId field_;
  MaskId mask_;
  IndexShape shape_;
  Place queries_;
  struct {
    const float* first;  // null: each head chooses for itself
    std::int64_t stride;
  } weights_;
  SelectedPositions chosen_;  // of the last run
};

}  // namespace espalier
