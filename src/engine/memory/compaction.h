// compaction.h: gathers the slots of a sequence whose tokens lie in short extents all over the pool.
//
// Attention reads extents of 16 slots at two thirds of the speed of long ones, of 5 slots at a fifth (attention_bench);
// moving a token costs about as much as reading it in five steps. So a prefix is moved when its extents are shorter
// than the number of steps that are still to read it, at most `short_extent`, and a few long pieces can be had for it.
// Short extents are left by times when the pool was full of running sequences; else extents grow in place and are
// evicted whole.
//
// Units: tokens. Threads: the engine thread. Fails: never; without room nothing is moved.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/engine_metrics.h"
#include "engine/step/sequence.h"
#include "engine/step/step.h"

namespace espalier {

// When the extents of a prefix are short enough, and many enough, to be moved.
struct CompactionLimits {
  int short_extent = 32;  // extents that are longer on average are left alone
  int least = 256;        // tokens that are worth the trouble
};

// Moves a running sequence's scattered prefix into few long extents, one sequence a step.
class Compaction {
 public:
  Compaction(CompactionLimits limits, RadixTree& tree, SlotAllocator& allocator, StepRunner& runner,
             EngineMetrics& metrics)
      : limits_(limits), tree_(tree), allocator_(allocator), runner_(runner), metrics_(metrics) {}

  // Moves what the tree holds of one of the running sequences, if that pays; others that share it follow.
  void step(std::span<const std::unique_ptr<Sequence>> running);

 private:
  bool pays(const Sequence& sequence) const;
  bool gather(Sequence& sequence);
  std::optional<OwnedSlots> new_place(int count, int most_extents);
  std::optional<OwnedSlots> free_place(int count, int most_extents);

  CompactionLimits limits_;
  RadixTree& tree_;
  SlotAllocator& allocator_;
  StepRunner& runner_;
  EngineMetrics& metrics_;
};

}  // namespace espalier
