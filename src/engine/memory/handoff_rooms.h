// handoff_rooms.h: requests whose prompts are computed here for another server (cache/peers/): from when to when they are here, and
// that what was computed for them stays until it was pulled.
// Units: seconds. Threads: the engine thread. Fails: never.
#pragma once

#include "engine/memory/sequence_memory.h"

namespace espalier {

// Tells those who pull which rooms are here, and pins what they have not pulled yet.
class HandoffRooms {
 public:
  explicit HandoffRooms(SequenceMemory& memory) : memory_(memory) {}

  void arrives(const Request& request);
  void leaves(const Sequence& sequence, Sequence::Clock::time_point now);  // after the tree has what it computed
  void release_given();                                                    // pins of what was pulled

 private:
  GivenPrefixes* given() { return memory_.disk() != nullptr ? memory_.disk()->fleet().given() : nullptr; }

  SequenceMemory& memory_;
};

}  // namespace espalier
