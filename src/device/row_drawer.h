// row_drawer.h: tokens drawn from rows of logits that lie on a device: what goes up for it, and comes down.
//
// Order: prepare() before the memory is sent, launch() behind it and behind what computes the logits, take() once the device is
// done. Threads: one. Fails: prepare() throws DeviceFailure when memory is short.
#pragma once

#include "device/sample_task.h"
#include "device/step_memory.h"

namespace espalier::device {

// Draws from the logits of one program.
class RowDrawer {
 public:
  // task: where the logits lie, and how they are finished.
  RowDrawer(const Device& device, const SampleTask& task) : device_(device), task_(task) {}

  void prepare(std::span<const RowDraw> draws, StepMemory& memory);
  void launch(Launches& launches) const;
  void take(std::span<DrawnToken> out) const;

 private:
  void make_room(std::size_t count);

  const Device& device_;
  SampleTask task_;
  Memory blocks_, out_, down_;  // down: the host's
};

}  // namespace espalier::device
