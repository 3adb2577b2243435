// retraction.h: slots and states for every chunk of a step; when the pool is full, running sequences give up theirs and
// wait again.
//
// Threads: the engine thread. Fails: never; a request that runs alone always has room for its next token.
#pragma once

#include "engine/schedule/prefix_reuse.h"

namespace espalier {

// Gives chunks their memory, and takes it from others where it has to.
class Retraction {
 public:
  Retraction(SequenceLists& sequences, SequenceMemory& memory, ExpectedDemand& demand, PrefixReuse& reuse,
             EngineMetrics& metrics)
      : sequences_(sequences), memory_(memory), demand_(demand), reuse_(reuse), metrics_(metrics) {}

  void secure(StepPlan& plan);  // when it returns, every chunk that is left has what it needs
  // A running sequence becomes a waiting one again; what it has computed goes to the tree and may be evicted.
  void put_back(Sequence& victim, StepPlan& plan, SequenceList& to);

 private:
  Sequence& victim() const;

  SequenceLists& sequences_;
  SequenceMemory& memory_;
  ExpectedDemand& demand_;
  PrefixReuse& reuse_;
  EngineMetrics& metrics_;
};

}  // namespace espalier
