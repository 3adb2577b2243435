// row.h: a row of the batch as operations on a device see it. Threads: those of one block.
#pragma once

#include "device/step/rows_task.h"

namespace espalier::device {

// Finds what operations name by number.
struct Row {
  const RowsMemory& memory;
  int row;
  float* scratch;

  ESPALIER_ON_DEVICE Row(const RowsMemory& of, int number)
      : memory(of), row(number), scratch(of.scratch + number * of.scratch_stride) {}
  ESPALIER_ON_DEVICE int thread() const { return simt::thread(); }
  ESPALIER_ON_DEVICE int threads() const { return simt::threads(); }
  ESPALIER_ON_DEVICE float* of(const Rows& rows) const {
    const cuda::BatchRows& buffer = memory.buffers[rows.buffer];
    return buffer.first + row * buffer.stride + rows.first;
  }
  ESPALIER_ON_DEVICE RowsMemory::Vector vector(VectorId id) const {
    return id < 0 ? RowsMemory::Vector{nullptr, 0} : memory.vectors[id];
  }
  ESPALIER_ON_DEVICE const float* host_row(int number) const {
    return memory.host_rows[number].first + row * memory.host_rows[number].stride;
  }
  ESPALIER_ON_DEVICE Slot slot(FieldId field) const {
    return (memory.in_window_slots[field] != 0 ? memory.window_slots : memory.slots)[row];
  }
};

}  // namespace espalier::device
