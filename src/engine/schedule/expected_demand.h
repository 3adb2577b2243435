// expected_demand.h: tokens that running sequences will still want.
//
// Units: tokens. Threads: the engine thread. Fails: never.
#pragma once

#include "engine/schedule/scheduler.h"
#include "engine/step/sequence_lists.h"

namespace espalier {

// What is still to come of each running sequence: as its request says, or as others have shown.
class ExpectedDemand {
 public:
  ExpectedDemand(const SequenceLists& sequences, double conservativeness)
      : sequences_(sequences), ratio_(conservativeness) {}

  int further(const Sequence& sequence) const;  // of its output
  int total() const;                            // that is not computed, and further output, of all that run
  void step() { ratio_.step(); }                // all found room
  void retracted();                             // the pool ran out
  double new_token_ratio() const { return ratio_.value(); }

 private:
  const SequenceLists& sequences_;
  NewTokenRatio ratio_;
};

}  // namespace espalier
