// row_drawer.h: tokens drawn from rows of logits that lie on a device: what goes up for it, and comes down.
//
// Rows with filters are scanned there; finish() asks for those of their logits that the filters can keep, and draws from these
// on the host.
// Order: prepare() before the memory is sent, launch() behind it and behind what computes the logits; once the device is done,
// finish(), which may ask it for more. Threads: one; the team draws. Fails: with DeviceFailure.
#pragma once

#include <vector>

#include "base/threads/compute_team.h"
#include "device/step/sample_task.h"
#include "device/step/step_memory.h"
#include "sampling/row_scan.h"

namespace espalier::device {

// Draws from the logits of one program.
class RowDrawer {
 public:
  // task: where the logits lie, and how they are finished. room: for a row's logits that filters can keep; where there are
  // more they are asked for once more.
  RowDrawer(const Device& device, const SampleTask& task, int room = 8192)
      : device_(device), task_(task), room_(room), bounds_(device) {}

  void prepare(std::span<const RowDraw> draws, StepMemory& memory);
  void launch(Launches& launches) const;
  void finish(std::span<DrawnToken> out, ComputeTeam& team);

 private:
  // A row with filters.
  struct Filtered {
    RowDraw draw;
    std::size_t place;  // among all
    sampling::RowScan scan;
    float least;
  };
  // Logits that filters can keep, as they come down.
  struct Kept {
    Memory counts, logits;
  };

  void make_room(std::size_t count);
  void read_scan(Filtered& row, std::size_t number) const;
  void sift(std::size_t first, std::size_t count, int room, Kept& kept);
  static DrawnToken draw(const Filtered& row, std::span<const SiftedLogit> found, int vocabulary);

  const Device& device_;
  SampleTask task_;
  const int room_;
  StepMemory bounds_;
  Memory blocks_, strips_, out_, found_;
  Memory down_, blocks_down_, strips_down_;  // the host's
  Kept kept_, whole_;                        // whole: of one row
  std::size_t most_ = 0;                     // rows that there is room for
  std::vector<std::size_t> plain_;           // places of those without filters
  std::vector<Filtered> filtered_;
};

}  // namespace espalier::device
