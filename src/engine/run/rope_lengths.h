// rope_lengths.h: by which length of text the angles of length-dependent RoPE are chosen.
//
// Under longrope a text beyond the original length has other angles at all of its positions, under dynamic NTK they
// change with every further token. Texts of one class have equal angles, share prefixes and are computed on; a text that
// grows into the next class is read again under that one. Classes of dynamic NTK are `step` tokens long: their angles
// are those of the class's longest text. With a step of 1 every token reads its whole text again, as the reference does
// (exact mode); kDynamicStep is what is served by default. docs/decisions/recurrent-state.md
//
// Units: tokens. Threads: a value. Source: model/program/rope_spec.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/program/rope_spec.h"

namespace espalier {

inline constexpr std::int64_t kDynamicStep = 1024;

// The classes of lengths that a model's tables of angles tell apart.
class RopeLengths {
 public:
  RopeLengths() = default;  // no table depends on the length
  RopeLengths(std::span<const RopeSpec> ropes, std::int64_t dynamic_step);

  bool any() const { return !limits_.empty(); }
  // What a batch is told (BatchSequence::rope_length) for a text of so many tokens: equal in a class, at least `length`
  // in all but the first, where it is 0.
  std::int64_t of(std::int64_t length) const;
  std::int64_t longest_alike(std::int64_t length) const;  // the longest text of the same class
  // The name space of a class inside a request's own. No scope of a request can be taken for another's class.
  std::string scope(std::string_view of_request, std::int64_t rope_length) const;

 private:
  struct Limit {
    std::int64_t long_after;
    std::int64_t step;  // 0: all longer texts are alike
  };
  std::int64_t step_end(std::int64_t length) const;  // up to which every table goes on as at this length
  std::vector<Limit> limits_;
};

}  // namespace espalier
