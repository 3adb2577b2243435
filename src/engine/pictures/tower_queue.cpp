#include "engine/pictures/tower_queue.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

constexpr int kLeastSlice = 16, kMostSlice = 1 << 14;  // rows
constexpr int kBatchRows = 1024;                       // of small pictures that are computed together
constexpr double kShareOfDecoding = 0.3;               // of a step's time, for the tower, beside sequences that decode,
constexpr double kShareOfPrompts = 1;                  // and beside prompts alone

}  // namespace

TowerQueue::Features TowerQueue::want(const PromptPicture& picture, bool& computes) {
  Features features = shelf_.find(picture.content);
  computes = features == nullptr || features->error().has_value();
  if (!computes && features->rows() == picture.rows()) return features;
  const bool another = !computes;  // the same number for two pictures: each is computed for itself
  computes = true;
  features = std::make_shared<PictureFeaturesOf>(picture, held_);
  if (!another) shelf_.add(features);
  waiting_.push_back(features);
  publish();
  return features;
}

bool TowerQueue::work(double seconds) {
  if (idle()) return false;
  credit_ = std::max(credit_, 0.0) + seconds;
  const auto start = now_();
  auto last = start;
  while (credit_ > 0 && (!batch_.empty() || begin_batch())) {
    const bool done = maker_.advance_rows(rows_);
    const auto now = now_();
    const double took = std::chrono::duration<double>(now - last).count();
    credit_ -= took;
    last = now;
    fit_slice(took, seconds);
    if (done) end_batch();
  }
  counters_.tower_microseconds.add(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(last - start).count()));
  publish();
  return true;
}

void TowerQueue::work_beside(double step_seconds, bool somebody_decodes) {
  if (idle()) {
    credit_ = 0;
    return;
  }
  credit_ += step_seconds * (somebody_decodes ? kShareOfDecoding : kShareOfPrompts);
  if (credit_ <= 0) return;
  const double credit = std::exchange(credit_, 0);
  work(credit);
}

// A slice is to take about a quarter of the time that there is: then it ends in time, and rows share their weights.
void TowerQueue::fit_slice(double took, double seconds) {
  if (took > seconds / 2)
    rows_ = std::max(rows_ / 2, kLeastSlice);
  else if (took < seconds / 8)
    rows_ = std::min(rows_ * 2, kMostSlice);
}

// The first that somebody still wants, and those behind it that are small.
bool TowerQueue::begin_batch() {
  std::vector<TowerPicture> parts;
  while (!waiting_.empty()) {
    Features next = waiting_.front().lock();
    if (next != nullptr && !next->parts().empty()) {
      std::vector<TowerPicture> with_next = parts;
      with_next.insert(with_next.end(), next->parts().begin(), next->parts().end());
      if (!parts.empty() && maker_.rows_of(with_next) > kBatchRows) break;
      parts = std::move(with_next);
      batch_.push_back(std::move(next));
    }
    waiting_.pop_front();
  }
  if (batch_.empty()) return false;
  if (auto begun = maker_.begin(parts); !begun.ok()) {
    fail_batch(begun.error());
    return begin_batch();
  }
  return true;
}

void TowerQueue::end_batch() {
  std::vector<PictureFeatures> made = maker_.take();
  std::size_t next = 0;
  for (const Features& features : batch_) {
    for (std::size_t left = features->parts().size(); left > 0; --left) features->add(std::move(made[next++]));
    counters_.computed.add();
    shelf_.keep(features);
  }
  batch_.clear();
}

void TowerQueue::fail_batch(const Error& error) {
  for (const Features& features : batch_) {
    features->fail(error);
    shelf_.forget(*features);
    counters_.failed.add();
  }
  batch_.clear();
}

void TowerQueue::publish() {
  counters_.kept_bytes.set(static_cast<double>(shelf_.bytes()));
  counters_.waiting.set(static_cast<double>(waiting_.size() + batch_.size()));
}

}  // namespace espalier
