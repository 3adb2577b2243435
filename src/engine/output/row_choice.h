// row_choice.h: for which rows of a step something is wanted, and what constraints say of them.
//
// Threads: the engine thread; masks that are not known are worked out by others while the model computes.
// Fails: never.
#pragma once

#include "engine/constrain/grammar_queue.h"
#include "engine/memory/sequence_memory.h"

namespace espalier {

// Finds the rows whose successor is asked for.
class RowChoice {
 public:
  RowChoice(const CoreOptions& options, const SequenceLists& sequences, SequenceMemory& memory,
            const ExpectedDemand& demand, EngineMetrics& metrics)
      : options_(options), sequences_(sequences), memory_(memory), demand_(demand), metrics_(metrics) {}
  void use(GrammarQueue& queue) { queue_ = &queue; }

  void choose(StepPlan& plan) const;
  void start_masks(const StepPlan& plan);

 private:
  struct Room {  // for other choices that begin in this step
    int places, tokens;
  };
  WantedRow wanted(const Sequence& sequence, int position, const Sequence& computed_by) const;
  void add_pooled(const ScheduledChunk& chunk, StepPlan& plan) const;
  void add_other_choices(StepPlan& plan, const Sequence& first, Room& room) const;

  const CoreOptions& options_;
  const SequenceLists& sequences_;
  SequenceMemory& memory_;
  const ExpectedDemand& demand_;
  EngineMetrics& metrics_;
  GrammarQueue* queue_ = nullptr;
};

}  // namespace espalier
