#include "engine/pictures/sequence_pictures.h"

#include <algorithm>

namespace espalier {
namespace {

// The span that has tokens on both sides of `position`; null: there is none.
const TokenSpan* span_across(std::span<const TokenSpan> spans, int position) {
  const auto behind = std::ranges::partition_point(spans, [&](const TokenSpan& s) { return s.begin < position; });
  if (behind == spans.begin() || std::prev(behind)->end <= position) return nullptr;
  return &*std::prev(behind);
}

}  // namespace

void SequencePictures::begin(TowerQueue& queue, int computed) {
  if (of_prompt_ == nullptr) return;
  begun_ = true;
  std::vector<Wanted> wanted;  // what it has is held until it is found again
  for (std::size_t i = 0; i < of_prompt_->list.size(); ++i) {
    const PromptPicture& picture = of_prompt_->list[i];
    if (picture.end() <= computed) continue;
    bool computes = false;
    wanted.push_back({i, queue.want(picture, computes)});
    if (computes) ++computes_;
  }
  wanted_ = std::move(wanted);
}

void SequencePictures::passed(int computed) {
  std::erase_if(wanted_, [&](const Wanted& w) { return of_prompt_->list[w.picture].end() <= computed; });
}

int SequencePictures::ready_until(int known) const {
  for (const Wanted& w : wanted_)
    if (!w.features->made()) return std::min(known, of_prompt_->list[w.picture].begin());
  return known;
}

bool SequencePictures::ready() const {
  return std::ranges::all_of(wanted_, [](const Wanted& w) { return w.features->made(); });
}

int SequencePictures::chunk_end(int begin, int end) const {
  if (of_prompt_ == nullptr) return end;
  const TokenSpan* cut = span_across(of_prompt_->both_ways, end);
  if (cut == nullptr) return end;
  return cut->begin > begin ? cut->begin : cut->end;
}

int SequencePictures::before_picture(int position) const {
  const TokenSpan* cut = span_across(whole(), position);
  return cut != nullptr ? cut->begin : position;
}

const Error* SequencePictures::error() const {
  for (const Wanted& w : wanted_)
    if (w.features->error()) return &*w.features->error();
  return nullptr;
}

const float* SequencePictures::row(int output, int position) const {
  for (const Wanted& w : wanted_) {
    int before = 0;
    for (const TokenSpan& span : of_prompt_->list[w.picture].spans) {
      if (position < span.begin) return nullptr;
      if (position < span.end) return w.features->row(output, before + position - span.begin);
      before += span.end - span.begin;
    }
  }
  return nullptr;
}

}  // namespace espalier
