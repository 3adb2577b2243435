// picture_stages.h: stages of towers: blends of learned positions, groups of rows that become one, rows that the caller
// gets.
//
// As on the CPU, behind a GatherStage only it knows what the rows are; positions and slots are those of the batch's
// rows by number.
// Threads: one. Fails: with DeviceFailure.
#pragma once

#include "device/library/gather_task.h"
#include "device/stages/stages.h"

namespace espalier::device {

// out += weighted rows of a table.
class BlendStage final : public DeviceStage {
 public:
  BlendStage(const BlendRowsOp& op, const float* table, const BatchRows& out) : op_(op), table_(table), out_(out) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override { launches.run(kEspalierGather, task_); }

 private:
  BlendRowsOp op_;
  const float* table_;
  BatchRows out_;
  GatherTask task_{};
};

// Makes one row of each group.
class GatherStage final : public DeviceStage {
 public:
  GatherStage(const GatherRowsOp& op, const BatchRows& in, const BatchRows& out) : op_(op), in_(in), out_(out) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override { launches.run(kEspalierGather, task_); }

 private:
  GatherRowsOp op_;
  BatchRows in_, out_;
  GatherTask task_{};
};

// Goes back to all rows of the batch.
class AllRowsStage final : public DeviceStage {
 public:
  void prepare(Step& step) override { step.pass().all_rows(); }
  void launch(Launches&) override {}
};

// Brings rows to the host, one behind the other.
class GiveStage final : public DeviceStage {
 public:
  // aside: memory of the device for them, [rows][width].
  GiveStage(const GiveOp& op, const BatchRows& in, float* aside) : op_(op), in_(in), aside_(aside) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override;
  void finish() override;

 private:
  GiveOp op_;
  BatchRows in_;
  float* aside_;
  Memory brought_;  // of the host
  int rows_ = 0;
  float* to_ = nullptr;  // the caller's
};

}  // namespace espalier::device
