// stages.h: the stages that programs become on a device.
#pragma once

#include <functional>
#include <optional>

#include "device/library/gather_task.h"
#include "device/ranks.h"
#include "device/step/step.h"
#include "kernels/cuda/experts_task.h"
#include "kernels/cuda/recurrences/recurrence_task.h"
#include "kernels/cuda/token_task.h"
#include "model/cpu/row_operations.h"

namespace espalier::device {

using cuda::BatchRows;

// Operations of rows, one behind the other.
class RowsStage final : public DeviceStage {
 public:
  // What the host computes of each row for one of them: into [rows][width] floats that are `first` before, and whether the
  // row has any.
  struct Maker {
    int host_rows, width;
    float first;
    std::function<bool(const Pass&, int row, float* to)> make;
    int marks = -1;
  };
  std::vector<RowOp> ops;
  std::vector<Maker> makers;
  const RowOp* on_device = nullptr;

  void prepare(Step& step) override;
  void launch(Launches& launches) override { launches.run(kEspalierRows, task_); }

 private:
  RowsTask task_{};
};

// One matrix times rows in a form.
class MultiplyStage final : public DeviceStage {
 public:
  explicit MultiplyStage(const cuda::MultiplyTask& task) : task_(task) {}
  void prepare(Step& step) override { task_.of.row_end = step.pass().rows(); }
  void launch(Launches& launches) override { launches.run(kEspalierMultiply, task_); }

 private:
  cuda::MultiplyTask task_;
};

// Rows through their experts.
class ExpertsStage final : public DeviceStage {
 public:
  cuda::GroupByExpertTask group{};
  std::vector<cuda::GatherRowsTask> gathers;
  std::vector<cuda::MultiplyExpertsTask> ups;
  std::vector<RowOp> inner;  // gates or activations, and their form for the next product
  const RowOp* inner_on_device = nullptr;
  Range own;                              // experts whose places are multiplied here
  std::optional<RankGather> bring_inner;  // of ranks that have some columns of all experts
  std::vector<RowOp> brought;             // the form of what they brought, for the next product
  const RowOp* brought_on_device = nullptr;
  std::optional<RankGather> bring_down;  // of ranks that have some experts
  bool only_meets = false;               // there, and computes nothing
  std::vector<RowOp> gathered;           // the form of gathered floats
  const RowOp* gathered_on_device = nullptr;
  cuda::MultiplyExpertsTask down{};
  cuda::CombineExpertsTask combine{};

  void prepare(Step& step) override;
  void launch(Launches& launches) override;

 private:
  void run_rows(Launches& launches, const RowOp* ops, std::size_t count) const;
  RowsMemory memory_{};
  cuda::ExpertPlaces places_{};
};

// Attention over one field, or over two.
class AttendStage final : public DeviceStage {
 public:
  // masks: which positions are seen in each, or null: all. exact: with the CPU's bits, else by tensor cores where they can.
  AttendStage(const AttendOp& op, const cuda::AttendTask& first, const Choice* mask, const cuda::AttendTask& then,
              const Choice* then_mask, bool exact)
      : op_(op), first_(first), then_(then), mask_(mask), then_mask_(then_mask), exact_(exact) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override;

 private:
  const Step::Attended& aim(Step& step, cuda::AttendTask& task, FieldId field, AttendOp::Around around,
                            const Visibility& visible);
  void take_tiles(const Step::Tiles& tiles);
  void run(Launches& launches, const cuda::AttendTask& task) const;
  AttendOp op_;
  cuda::AttendTask first_, then_;
  Memory first_partials_, then_partials_;  // of tasks that are cut
  const Choice *mask_, *then_mask_;
  bool exact_, by_tensor_cores_ = false;
  cuda::AttendTensorTask tensor_{};  // without first_
  int most_blocks_ = 0;              // of chosen positions
};

// Sparse attention's choice of positions.
class ChooseStage final : public DeviceStage {
 public:
  ChooseStage(const ChooseOp& op, const cuda::ChoosePositionsTask& task, Choice* mask)
      : op_(op), task_(task), mask_(mask) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override { launches.run(kEspalierChoosePositions, task_); }

 private:
  ChooseOp op_;
  cuda::ChoosePositionsTask task_;
  Choice* mask_;  // where attention finds the choice
  Memory scores_, words_;
};

// A layer that carries states; Task has the sequences.
template <class Task, EspalierKernel kKernel>
class SequenceStage final : public DeviceStage {
 public:
  explicit SequenceStage(const Task& task) : task_(task) {}
  void prepare(Step& step) override { task_.sequences = step.sequence_parts(); }
  void launch(Launches& launches) override { launches.run(kKernel, task_); }

 private:
  Task task_;
};

// N-grams of tokens, looked up by the host; the tokens before the batch lie in the state.
class NgramStage final : public DeviceStage {
 public:
  NgramStage(const NgramOp& op, std::vector<const Tensor*> tables, BatchRows out);
  void prepare(Step& step) override;
  void launch(Launches& launches) override;

 private:
  NgramOp op_;
  std::vector<const Tensor*> tables_;
  GatherTask put_{};
  struct Kept {
    float* state;
    const float* from;
  };
  std::vector<Kept> kept_;
};

// What is kept of the position before.
class LoadBeforeStage final : public DeviceStage {
 public:
  LoadBeforeStage(FieldId field, const cuda::LoadTokensTask& task) : field_(field), task_(task) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override { launches.run(kEspalierLoadTokens, task_); }

 private:
  FieldId field_;
  cuda::LoadTokensTask task_;
};

// Moves the rows whose logits are wanted together.
class KeepStage final : public DeviceStage {
 public:
  // live: what is moved, and memory for one of them.
  KeepStage(std::vector<std::pair<BatchRows, int>> live, float* aside) : live_(std::move(live)), aside_(aside) {}
  void prepare(Step& step) override;
  void launch(Launches& launches) override;

 private:
  std::vector<std::pair<BatchRows, int>> live_;
  float* aside_;
  const std::int32_t* map_ = nullptr;  // null: all rows stay
  int rows_ = 0;
};

}  // namespace espalier::device
