// tower_batch.h: one batch of pictures as a program wants it, and the pool that its attention reads.
//
// Threads: one. Fails: hold() for lack of memory.
#pragma once

#include <memory>
#include <vector>

#include "model/keeps.h"
#include "model/towers/tower.h"

namespace espalier {

// Keys and values of the rows at hand.
class TowerPool {
 public:
  // Slots for so many rows in a back end's memory; what was held before is lost.
  Result<> hold(const Keeps& keeps, KvType type, int rows, Backend& backend);
  const KvView& view() const { return view_; }

 private:
  int slots_ = 0;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<KvLayer> layers_;
  KvView view_;
};

// The rows of some pictures, what they bring, and where their features go. It stays where it is: views point into it.
class TowerBatch {
 public:
  TowerBatch(const TowerSpec& spec, std::span<const TowerPicture> pictures, TowerLayout layout);
  TowerBatch(const TowerBatch&) = delete;
  TowerBatch& operator=(const TowerBatch&) = delete;

  const Batch& batch() const { return batch_; }
  std::vector<PictureFeatures> features();
  // The most rows that a batch of this layout has at any time.
  static int rows_of(const TowerLayout& layout);

 private:
  void cut_planes(std::span<const TowerPicture> pictures);
  void bring_patches(std::span<const TowerPicture> pictures);
  std::vector<BatchSequence> sequences(std::span<const RowSpan> spans, int list);
  void make_outputs();

  const TowerSpec& spec_;
  TowerLayout layout_;
  std::vector<float> cut_;  // patches of planes
  std::vector<const float*> given_;
  std::span<const float* const> inputs_[1];
  std::vector<TokenId> tokens_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> zeros_, last_;  // [rows]; of spans, then of windows, then of what is merged
  std::vector<KvRun> runs_;
  std::vector<BatchSequence> spans_, windows_, merged_;
  std::vector<RowBlend> blends_;
  std::vector<std::span<const std::int32_t>> maps_;
  std::vector<std::vector<float>> outputs_;
  std::vector<float*> output_places_;
  PictureRows rows_;
  Batch batch_;
};

}  // namespace espalier
