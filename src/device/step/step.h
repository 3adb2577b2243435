// step.h: a step on its way to a device: what the batch's rows are, where what the host knows of them lies, and the stages that a
// program became.
//
// A step has two phases: all rows, and those that are left behind a KeepRowsOp. Each has its own positions and angles.
// Order: begin(); prepare() of every stage in order, which puts what it needs into memory and leaves the rows as it will have
// them; send(); launch() of every stage in order; finish() once that is done. Threads: one. Fails: with DeviceFailure.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "device/step/launches.h"
#include "device/step/rows_task.h"
#include "device/step/step_memory.h"
#include "kernels/cuda/adapters_task.h"
#include "kernels/cuda/attention/attention_task.h"
#include "kernels/cuda/sequence_parts.h"
#include "model/cpu/lower.h"

namespace espalier::device {

// The angles that a rotation needs: of a table, at positions shifted by so much.
struct AngleUse {
  RopeId rope;
  int shift;
  bool operator==(const AngleUse&) const = default;
};

// What stays the same from step to step.
struct ProgramMemory {
  const cuda::BatchRows* buffers;
  const RowsMemory::Vector* vectors;
  const TokenField* fields;
  const std::int32_t* angle_counts;  // of each AngleUse
  float* scratch;
  std::int64_t scratch_stride;
  std::vector<AngleUse> angles;
  int host_rows = 0, marks = 0;  // how many operations bring any
};

// One step.
class Step {
 public:
  Step(const Device& device, Loaded& loaded, const ProgramMemory& of_program, StepMemory& memory, const Batch& batch,
       const KvView& kv);

  const Device& device() const { return device_; }
  Pass& pass() { return pass_; }
  const Batch& batch() const { return batch_; }
  StepMemory& memory() { return memory_; }
  Loaded& loaded() { return loaded_; }
  const KvLayer& field(FieldId id) const { return pass_.field(id); }

  // Of the rows as they are in prepare().
  const RowsMemory& rows_memory() const { return phase_; }
  // Where a host row's floats go: [rows][width], which the device reads.
  float* host_rows(int number, int width);
  unsigned char* marks(int number);
  void keep_rows();

  // Whom each row sees, and where that lies.
  struct Attended {
    const cuda::AttendedRow* rows;
    const cuda::PlacedRun* runs;
    int count;
    std::int64_t positions;    // that any of them sees: one more than the last
    std::vector<int> rows_of;  // each sequence
  };
  const Attended& attended(FieldId field, AttendOp::Around around, const Visibility& visible);
  // Its rows as attention by tensor cores takes them, where the device reads them.
  struct Tiles {
    const cuda::AttendedTile *few, *many;
    int few_count, many_count, few_queries, many_queries;
  };
  const Tiles& tiles(const Attended& attended, const cuda::TensorCut& cut);
  cuda::SequenceParts sequence_parts();
  // The rows that have adapters, grouped as Pass::adapted() has them.
  const cuda::AdaptedBatch& adapted();

 private:
  void begin_phase();
  void put_angles();
  Attended make_attended(FieldId field, AttendOp::Around around, const Visibility& visible);

  const Device& device_;
  Loaded& loaded_;
  const ProgramMemory& of_program_;
  StepMemory& memory_;
  const Batch& batch_;
  Pass pass_;
  RowsMemory phase_{};
  StepMemory::Room<HostRows> host_rows_{};
  StepMemory::Room<const unsigned char*> marks_{};
  std::map<std::tuple<bool, AttendOp::Around, Visibility>, Attended> attended_;
  std::map<std::tuple<const Attended*, int, int>, Tiles> tiles_;  // by heads of a tile
  cuda::SequenceParts parts_{};
  cuda::AdaptedBatch adapted_{};
};

// Which positions rows see by the choice that was made last, and how many a row can have of it: 0: not known.
struct Choice : Selection {
  std::int64_t most = 0;
};

// Some work of a device, one launch or several.
class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  virtual void prepare(Step& step) = 0;
  virtual void launch(Launches& launches) = 0;
  virtual void finish() {}  // once the device has done all that was launched
};
using DeviceStages = std::vector<std::unique_ptr<DeviceStage>>;

}  // namespace espalier::device
