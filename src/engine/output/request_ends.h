// request_ends.h: what a request is told when one of its choices ends, and what is counted of that.
//
// Threads: the engine thread. Fails: never.
#pragma once

#include "engine/engine_metrics.h"
#include "engine/step/clock.h"
#include "engine/step/sequence.h"
#include "espalier/stream.h"

namespace espalier {

// Makes the last event of each choice.
class RequestEnds {
 public:
  RequestEnds(EngineMetrics& metrics, const Now& now) : metrics_(metrics), now_(now) {}

  // Its usage and times; counted as ended.
  FinishEvent of(const Sequence& sequence, FinishReason reason);
  FinishEvent of(const Sequence& sequence, FinishReason reason, const Error& error);

 private:
  void count(const Sequence& sequence, FinishReason reason);

  EngineMetrics& metrics_;
  const Now& now_;
};

}  // namespace espalier
