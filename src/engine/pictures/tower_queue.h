// tower_queue.h: pictures that wait for the tower, and the tower's work in slices between steps.
//
// Wanted pictures are computed in the order in which they were asked for, small ones several at a time. A picture that two
// requests want is computed once, also when both come at once; one that nobody wants any more is passed over. Beside
// sequences that compute, the tower gets a share of each step's time: what a slice takes too long is made up for by
// the steps that follow.
//
// Units: seconds. Threads: the engine thread. Fails: never; a picture that cannot be computed says why
// (PictureFeaturesOf::error).
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/pictures/picture_counters.h"
#include "engine/pictures/picture_features.h"

namespace espalier {

// What makes features: a tower, or in tests a function.
class FeatureMaker {
 public:
  virtual ~FeatureMaker() = default;
  // As those of Tower (model/towers/tower.h).
  virtual int rows_of(std::span<const TowerPicture> pictures) const = 0;
  virtual Result<> begin(std::span<const TowerPicture> pictures) = 0;
  virtual bool advance_rows(int rows) = 0;
  virtual std::vector<PictureFeatures> take() = 0;
  virtual int outputs() const = 0;  // of each picture
};

// The model's tower.
class TowerMaker final : public FeatureMaker {
 public:
  explicit TowerMaker(std::unique_ptr<Tower> tower, int outputs) : tower_(std::move(tower)), outputs_(outputs) {}
  int rows_of(std::span<const TowerPicture> pictures) const override { return tower_->rows_of(pictures); }
  Result<> begin(std::span<const TowerPicture> pictures) override { return tower_->begin(pictures); }
  bool advance_rows(int rows) override { return tower_->advance_rows(rows); }
  std::vector<PictureFeatures> take() override { return tower_->take(); }
  int outputs() const override { return outputs_; }

 private:
  std::unique_ptr<Tower> tower_;
  int outputs_;
};

// Features for whoever asks, one batch of the tower after the other.
class TowerQueue {
 public:
  using Features = std::shared_ptr<PictureFeaturesOf>;
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  TowerQueue(FeatureMaker& maker, std::size_t shelf_bytes, PictureCounters& counters,
             Now now = std::chrono::steady_clock::now)
      : maker_(maker), shelf_bytes_(shelf_bytes), shelf_(shelf_bytes), counters_(counters), now_(std::move(now)) {}

  // Made, being made, or to be made from now on, as long as somebody holds them. `computes`: nobody else has asked.
  Features want(const PromptPicture& picture, bool& computes);
  int outputs() const { return maker_.outputs(); }
  // Whether more may be asked for ahead of time: what is held is bounded, but for whoever has nobody before him.
  bool has_room() const { return idle() || *held_ <= 2 * shelf_bytes_ + kHeldBeside; }

  // Works for about so long; true if there was anything to do.
  bool work(double seconds);
  // Beside a step that took so long.
  void work_beside(double step_seconds, bool somebody_decodes);
  bool idle() const { return batch_.empty() && waiting_.empty(); }
  void clear() { shelf_.clear(); }  // of what was made

 private:
  static constexpr std::size_t kHeldBeside = 64 << 20;  // bytes of features
  bool begin_batch();
  void end_batch();
  void fit_slice(double took, double seconds);
  void fail_batch(const Error& error);
  void publish();

  FeatureMaker& maker_;
  const std::size_t shelf_bytes_;
  const std::shared_ptr<std::size_t> held_ = std::make_shared<std::size_t>(0);
  PictureShelf shelf_;
  PictureCounters& counters_;
  const Now now_;
  std::deque<std::weak_ptr<PictureFeaturesOf>> waiting_;
  std::vector<Features> batch_;  // that the tower is at work on
  int rows_ = 256;               // of a slice
  double credit_ = 0;            // seconds that the tower may take; below 0: that it took too long
};

}  // namespace espalier
