#include "engine/pictures/picture_features.h"

#include <algorithm>
#include <utility>

namespace espalier {

PictureFeaturesOf::PictureFeaturesOf(const PromptPicture& picture, std::shared_ptr<std::size_t> held)
    : content_(picture.content), pixels_(picture.pixels), parts_(picture.parts), held_(std::move(held)) {
  int end = 0;
  for (const int rows : picture.part_rows) ends_.push_back(end += rows);
}

const float* PictureFeaturesOf::row(int output, int index) const {
  const auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  const PictureFeatures& made = parts_made_[part];
  const int before = part == 0 ? 0 : ends_[part - 1];
  return made.outputs[static_cast<std::size_t>(output)].data() + std::ptrdiff_t{index - before} * made.width;
}

void PictureFeaturesOf::add(PictureFeatures part) {
  for (const auto& output : part.outputs) counted_ += output.size() * sizeof(float);
  for (const auto& output : part.outputs) *held_ += output.size() * sizeof(float);
  parts_made_.push_back(std::move(part));
  if (parts_made_.size() < ends_.size()) return;
  made_ = true;
  parts_.clear();
  pixels_.reset();
}

void PictureFeaturesOf::fail(Error error) {
  error_ = std::move(error);
  parts_made_.clear();
  parts_.clear();
  pixels_.reset();
}

std::shared_ptr<PictureFeaturesOf> PictureShelf::find(const std::array<std::uint64_t, 2>& content) {
  const auto at = known_.find(content);
  if (at == known_.end()) return nullptr;
  if (at->second.kept) kept_.splice(kept_.begin(), kept_, *at->second.kept);
  return at->second.features.lock();
}

void PictureShelf::add(const std::shared_ptr<PictureFeaturesOf>& features) {
  if (known_.size() >= sweep_at_) sweep();
  known_[features->content()] = {features, std::nullopt};
}

void PictureShelf::keep(const std::shared_ptr<PictureFeaturesOf>& features) {
  if (features->bytes() > most_bytes_) return;
  Known& known = known_[features->content()];
  known.features = features;
  if (known.kept) return;
  kept_.push_front(features);
  known.kept = kept_.begin();
  bytes_ += features->bytes();
  while (bytes_ > most_bytes_) {
    bytes_ -= kept_.back()->bytes();
    known_.at(kept_.back()->content()).kept.reset();  // somebody may still hold them
    kept_.pop_back();
  }
}

void PictureShelf::forget(const PictureFeaturesOf& features) {
  const auto at = known_.find(features.content());
  if (at != known_.end() && !at->second.kept) known_.erase(at);
}

void PictureShelf::clear() {
  for (const auto& features : kept_) known_.at(features->content()).kept.reset();
  kept_.clear();
  bytes_ = 0;
  sweep();
}

void PictureShelf::sweep() {
  std::erase_if(known_, [](const auto& entry) { return entry.second.features.expired(); });
  sweep_at_ = std::max<std::size_t>(64, 2 * known_.size());
}

}  // namespace espalier
