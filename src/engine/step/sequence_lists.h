// sequence_lists.h: the sequences that wait and those that run.
//
// Threads: the engine thread. Fails: never.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/step/sequence.h"

namespace espalier {

using SequenceList = std::vector<std::unique_ptr<Sequence>>;

// Every sequence that has not ended, each list in order of arrival.
struct SequenceLists {
  SequenceList waiting, running;
  SequenceList admitted, retracted;  // while a step is planned: on their way between the two

  bool empty() const { return waiting.empty() && running.empty(); }
  int in_batch() const { return static_cast<int>(running.size() + admitted.size()); }  // once the step is planned
  template <class F>
  void for_each(F&& visit) const {
    for (const auto* list : {&running, &waiting})
      for (const auto& sequence : *list) visit(*sequence);
  }
  void start_admitted();                               // they run
  void keep_retracted();                               // they wait
  void remove(std::span<const Sequence* const> gone);  // O(all), over those that wait only when some of them go
};

}  // namespace espalier
