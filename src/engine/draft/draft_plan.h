// draft_plan.h: guesses that ride along with the chunks of a step, and what became of them.
//
// They never take room that prompts or other sequences want. Threads: the engine thread. Fails: never.
#pragma once

#include "engine/constrain/grammar_queue.h"
#include "engine/memory/sequence_memory.h"
#include "engine/output/output_writer.h"

namespace espalier {

// Puts guesses behind the tokens of decoding sequences, and counts which came true.
class DraftPlan {
 public:
  DraftPlan(const CoreOptions& options, SequenceMemory& memory, Drafts& drafts, const OutputWriter& output,
            EngineMetrics& metrics)
      : options_(options), memory_(memory), drafts_(drafts), output_(output), metrics_(metrics) {}
  void use(GrammarQueue& queue) { queue_ = &queue; }

  void add(StepPlan& plan, int budget);  // rows, at most
  void settle(Sequence& sequence, int accepted, int rejected);

 private:
  void add_forced(StepPlan& plan, int& room);
  void propose(StepPlan& plan, int room);
  void cut_to_constraint(Sequence& sequence);

  const CoreOptions& options_;
  SequenceMemory& memory_;
  Drafts& drafts_;
  const OutputWriter& output_;
  EngineMetrics& metrics_;
  GrammarQueue* queue_ = nullptr;
};

}  // namespace espalier
