// rows_task.h: operations of rows (model/program/op.h) on a device: one block of threads takes a row through all that follow one
// another.
//
// The operations come as they stand in the program, which names places in buffers and vectors by number; RowsMemory says where
// these are. What only the host knows for a row (embeddings, angles, factors by position) lies in memory of the step.
// Results are the CPU's bits: the same code computes them (kernels/cpu/generic).
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <variant>

#include "kernels/attention/kv_layout.h"
#include "kernels/cuda/batch_rows.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/row_format.h"
#include "model/keeps.h"
#include "model/program/op.h"

namespace espalier::device {

// Floats of each row, in memory of the step: [rows][stride].
struct HostRows {
  const float* first;
  std::int64_t stride;
};

// out = scale * rows, or added to what is there; only of rows with a mark where there are marks.
struct TakeRowsOp {
  Rows out;
  int host_rows;  // of RowsMemory::host_rows
  float scale = 1.0f;
  bool add = false;
  int marks = -1;      // of RowsMemory::marks: which rows have any
  bool clear = false;  // of those that have none: zeros
};
// rows *= a factor of each row, the first of host_rows.
struct ScaleRowsOp {
  Rows rows;
  int host_rows;
};
// Rows in the form that a product reads, in the order of its inputs where it has one.
struct ConvertRowsOp {
  Rows in;
  RowFormat to_form;
  std::byte* to;
  std::size_t stride;
  const std::int32_t* order;  // [width], or null
  float* ordered;             // memory of a row where there is an order, [rows][width]
};

// A route, whose experts may be host_rows (of ids) instead of the best.
struct RouteRowsOp {
  RouteOp op;
  int host_rows = -1;
};

using DeviceRowOp = std::variant<NormOp, ActivateOp, GateOp, CombineOp, CopyOp, RotateOp, DotOp, StoreOp, RouteRowsOp,
                                 SpreadWeightsOp, MixOp, ScaleToOp, ConstantOp, ComplementOp, ClipOp, CutOffOp,
                                 StreamGatesOp, DecayOp, TimeStepOp, TakeRowsOp, ScaleRowsOp, ConvertRowsOp>;

// A DeviceRowOp as plain bytes.
struct RowOp {
  static constexpr std::size_t kRoom = 144;
  std::int32_t kind;  // its index
  alignas(8) std::byte op[kRoom];
};
RowOp to_bytes(const DeviceRowOp& op);
// Floats of scratch memory that an operation needs of a row.
std::int64_t scratch_floats(const DeviceRowOp& op);

// Where the angles of a row stand.
struct RowAngles {
  const float *cosines, *sines;
  const float *second_cosines, *second_sines;  // of the second half of a head where halves differ; else null
};

// What operations name by number, in the device's memory.
struct RowsMemory {
  struct Vector {
    const float* values;
    std::int64_t count;
  };
  const cuda::BatchRows* buffers;
  const Vector* vectors;
  const TokenField* fields;
  const KvLayer* layers;                 // [fields]
  const unsigned char* in_window_slots;  // [fields]
  const std::int32_t* angle_counts;      // [ropes]: half the turned dimensions
  float* scratch;                        // [rows][scratch_stride]
  std::int64_t scratch_stride;
  // of the step:
  const HostRows* host_rows;
  const unsigned char* const* marks;
  const std::int64_t* positions;
  const Slot *slots, *window_slots;
  const RowAngles* angles;  // [ropes][angle_stride]
  std::int64_t angle_stride;
};

// Rows through some operations.
struct RowsTask {
  const RowOp* ops;
  int count;
  int rows;
  const int* live;  // how many of them there are, or null: all
  RowsMemory memory;
};
void run_rows(simt::Stream stream, const RowsTask& task);

}  // namespace espalier::device
