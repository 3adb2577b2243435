// sequence_pictures.h: how far a sequence is with the pictures of its prompt: which features it still needs, up to where
// its next chunk may reach.
//
// Units: positions in tokens. Threads: the engine thread. Fails: never.
#pragma once

#include <memory>
#include <vector>

#include "engine/pictures/tower_queue.h"

namespace espalier {

// What a sequence has of its pictures; part of it. Of one without pictures everything here is empty and free.
class SequencePictures {
 public:
  SequencePictures() = default;
  explicit SequencePictures(std::shared_ptr<const PromptPictures> of_prompt) : of_prompt_(std::move(of_prompt)) {}

  explicit operator bool() const { return of_prompt_ != nullptr; }
  const PromptPictures& of_prompt() const { return *of_prompt_; }
  std::span<const TokenSpan> whole() const {
    return of_prompt_ ? std::span<const TokenSpan>(of_prompt_->whole) : std::span<const TokenSpan>();
  }

  // It goes on from `computed` tokens: asks for the features of all pictures behind.
  void begin(TowerQueue& queue, int computed);
  bool begun() const { return begun_; }
  // So many tokens are computed: features of the pictures before are let go of.
  void passed(int computed);
  void let_go() {
    wanted_.clear();
    begun_ = false;
  }

  // Up to where tokens can be computed by now: the first picture whose features are not there, or `known`.
  int ready_until(int known) const;
  bool ready() const;  // all that was asked for is there
  // Where a chunk [begin, end) ends so that no picture whose tokens see one another is cut: before it, or if it begins
  // there, behind it.
  int chunk_end(int begin, int end) const;
  // Where a match would end that is not to end inside a picture.
  int before_picture(int position) const;
  // Why a picture cannot be computed; null: nothing is known against it.
  const Error* error() const;
  int computes() const { return computes_; }  // pictures that the tower ran for it

  // Of the image token at `position`: its row of an output. Null: it is none. Requires: ready.
  const float* row(int output, int position) const;

 private:
  struct Wanted {
    std::size_t picture;
    TowerQueue::Features features;
  };
  std::shared_ptr<const PromptPictures> of_prompt_;  // null: no pictures
  std::vector<Wanted> wanted_;                       // in order
  bool begun_ = false;
  int computes_ = 0;
};

}  // namespace espalier
