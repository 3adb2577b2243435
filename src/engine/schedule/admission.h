// admission.h: which waiting requests begin in a step: in the order of a policy, while tokens of the step, places of the
// batch and memory last.
//
// A request whose prefix another one is computing right now waits and shares it; one whose prefix is being read from
// disk waits for that. Background work gives up its place to others.
// Threads: the engine thread. Fails: never.
#pragma once

#include "engine/schedule/retraction.h"

namespace espalier {

// Moves waiting sequences to those that run.
class Admission {
 public:
  Admission(const CoreOptions& options, SequenceLists& sequences, SequenceMemory& memory, PrefixReuse& reuse,
            Retraction& retraction)
      : options_(options), sequences_(sequences), memory_(memory), reuse_(reuse), retraction_(retraction) {}

  // Their chunks join the plan, `prompt_budget` tokens at most, which are taken off.
  void admit(StepPlan& plan, int& prompt_budget);

 private:
  bool nobody_finds_a_place() const;
  std::vector<WaitingView> views();
  void refresh_peeks();
  void peek(Sequence& waiting);
  bool is_being_computed(const Sequence& waiting);
  bool is_being_read(Sequence& waiting);
  bool is_being_seen(Sequence& waiting);
  bool adapter_waits(const Sequence& waiting) const;
  bool has_room(const Sequence& waiting) const;
  bool make_room(const Sequence& waiting, StepPlan& plan);
  bool begin(Sequence& waiting);
  void age(std::size_t last_admitted);

  const CoreOptions& options_;
  SequenceLists& sequences_;
  SequenceMemory& memory_;
  PrefixReuse& reuse_;
  Retraction& retraction_;
  std::size_t next_peek_ = 0;
};

}  // namespace espalier
