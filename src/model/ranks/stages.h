// stages.h: which operations of a program are computed by which of several stages (pipeline parallel), for models that one
// rank's memory cannot hold.
//
// Stages have about equally many weights. They change between operations where least has to be handed over (between layers,
// as a rule) and where no stage reads what another keeps of tokens. Threads: pure. Fails: never; where a program cannot be cut
// so often, the last stages have nothing to do.
#pragma once

#include <vector>

#include "model/program/program.h"

namespace espalier {

// Where a stage begins, and what it has to be given of the buffers.
struct StageBegin {
  int op = 0;
  std::vector<Rows> live;
};

// [stages]; the first begins at operation 0. Those that have nothing to do begin behind the last operation.
std::vector<StageBegin> stages_of(const Program& whole, int stages);

}  // namespace espalier
