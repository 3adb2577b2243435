// ranks.h: a device that computes with the ranks of a group, and how these bring together what each has computed.
//
// The device's object does it by itself where it can (NCCL), else it calls the group by way of the host. Parts are floats of one
// length, so that the device can be asked before it is known what it has computed; all ranks ask for the same.
// Threads: one; the group is called by whatever thread the device calls the host with, while ours waits or asks for more.
// Fails: join() with the device's words; a lost rank as the group says (ranks/collective.h).
#pragma once

#include <memory>
#include <string>

#include "device/step/step.h"
#include "model/ranks/cut.h"
#include "ranks/collective.h"

namespace espalier::device {

// A device's place in a group. *this and the group outlive the device's work.
class DeviceRanks {
 public:
  static Result<std::unique_ptr<DeviceRanks>> join(const Device& device, ranks::Collective& group);
  const std::string& how() const { return how_; }  // as Device::join() says
  // Whether nothing is asked of the group while the device computes, so that others may use it.
  bool by_itself() const { return !how_.empty(); }

 private:
  explicit DeviceRanks(ranks::Collective& group) : group_(group) {}
  int gather(const void* part, void* all, std::size_t bytes);

  ranks::Collective& group_;
  std::string how_;
};

// Memory for parts on their way, of all gathers of a program.
struct RankParts {
  Memory own, all;
};

// One gather of a program: rank r has columns cut[r] of some rows, or those rows that are places of experts cut[r].
class RankGather {
 public:
  RankGather(const ranks::Collective& group, Cut cut, std::shared_ptr<RankParts> parts)
      : rank_(group.rank()), most_bytes_(most_bytes(group)), cut_(std::move(cut)), parts_(std::move(parts)) {}
  static std::size_t most_bytes(const ranks::Collective& group);  // of a part

  // Where it is done, once that is known. rows: from column 0 on, null: this rank has none. on_device: the cut, there.
  // takes: this rank gets what the others have. halves: rounded to bf16, as all that read it do.
  void aim(const cuda::BatchRows& rows, const Range* on_device, bool takes, bool halves = false);
  // Whole rows of this width. first_place: of each expert, and behind the last; on the device.
  void aim_at_places(float* rows, int width, const int* first_place, const Range* on_device);

  // This rank has nothing of such rows.
  void aim_to_meet(int width) {
    takes_ = false;
    width_ = width;
  }

  void prepare(const Device& device, int rows);
  void launch(Launches& launches) const;

 private:
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * (halves_ ? 2 : sizeof(float)); }
  bool of_places() const { return first_place_ != nullptr; }
  Range own() const { return of_places() ? Range{0, width_} : cut_[static_cast<std::size_t>(rank_)]; }

  int rank_;
  std::size_t most_bytes_;
  Cut cut_;
  std::shared_ptr<RankParts> parts_;
  cuda::BatchRows rows_{};
  const Range* on_device_ = nullptr;
  const int* first_place_ = nullptr;
  bool takes_ = true, halves_ = false;
  int width_ = 0, count_ = 0, at_once_ = 1;
};

// What ranks bring together, as a stage of its own.
class RanksStage final : public DeviceStage {
 public:
  // rows_each: of each row of the batch.
  RanksStage(RankGather gather, int rows_each) : gather_(std::move(gather)), rows_each_(rows_each) {}
  void prepare(Step& step) override { gather_.prepare(step.device(), step.pass().rows() * rows_each_); }
  void launch(Launches& launches) override { gather_.launch(launches); }

 private:
  RankGather gather_;
  int rows_each_;
};

}  // namespace espalier::device
