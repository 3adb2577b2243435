// gather_stage.h: stages that change which rows there are: groups of rows become one, and all rows come back.
#pragma once

#include "model/cpu/stages/stage.h"
#include "model/program/op.h"

namespace espalier {

// Puts the rows of each group side by side, or takes their mean.
class GatherStage final : public Stage {
 public:
  GatherStage(const GatherRowsOp& op, Place in, Place out) : op_(op), in_(in), out_(out) {}
  void run(Pass& pass) override;

 private:
  void put(std::span<const std::int32_t> group, float* to) const;
  void add_up(const Pass& pass, std::span<const std::int32_t> group, const float* weights, float* to) const;

  GatherRowsOp op_;
  Place in_, out_;
};

// Goes back to all rows of the batch.
class AllRowsStage final : public Stage {
 public:
  void run(Pass& pass) override { pass.all_rows(); }
};

}  // namespace espalier
