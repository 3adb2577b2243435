// sequence_windows.h: window slots of running sequences: whether one more finds room, and room for the next chunk.
//
// Which slot has which window slot is told by cache/slots/window_slots.h; a sequence gives back its own behind its window
// (held_tokens.h). Without window slots everything here does nothing and has room without end.
// docs/decisions/windows.md
// Units: window slots. Threads: the engine thread. Fails: never. Order: slots, tree and pins outlive it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/tree/tree_windows.h"
#include "engine/memory/pins.h"

namespace espalier {

struct Sequence;

// The running sequences' side of the window slots.
class SequenceWindows {
 public:
  using Sequences = std::span<const std::unique_ptr<Sequence>>;
  using Further = std::function<int(const Sequence&)>;  // tokens that a sequence is expected to say yet

  // slots: null when all lies in one space. chunk: prompt tokens of one step.
  SequenceWindows(WindowSlots* slots, RadixTree& tree, const Pins& pins, int chunk, Further further)
      : slots_(slots), tree_(tree), pins_(pins), chunk_(chunk), further_(std::move(further)) {}

  // Slots that are left when those who run have what they will want. What several share counts once as long as they
  // share it.
  int room(Sequences running, Sequences admitted) const;
  // Whether there is room for one more on `prefix`; not matched yet: on what may be there.
  bool fits(const Sequence& waiting, const PinnedPrefix& prefix, Sequences running, Sequences admitted) const;
  void make_place(int count, Sequences running);  // so many are free, if what nobody reads is enough
  // What else make_place() is not to take.
  void spare(std::function<void(std::vector<WindowUse>&)> others) { others_ = std::move(others); }
  Result<> check(Sequences running) const;  // all that the next rows read is there

 private:
  using Uses = std::vector<WindowUse>;
  Uses in_use(Sequences running, Sequences admitted) const;
  int room(const Uses& in_use, Sequences running, Sequences admitted) const;
  int wanted(const Sequence& sequence, int first) const;

  WindowSlots* const slots_;
  RadixTree& tree_;
  const Pins& pins_;
  const int chunk_;
  const Further further_;
  std::function<void(std::vector<WindowUse>&)> others_;
};

}  // namespace espalier
