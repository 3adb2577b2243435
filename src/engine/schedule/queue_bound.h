// queue_bound.h: how much may wait, and the status that the engine thread published last.
//
// A request counts from submit() on: first here, then, once the engine thread has seen it, in the status. Room in the
// running batch counts as room in the queue.
// Units: requests count once per choice, tokens are those of prompts. Threads: any; one mutex.
// Fails: busy, naming the flag whose limit is reached; bad_request for more at once than an idle engine takes.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "espalier/engine.h"

namespace espalier {

// Counts what was submitted and not yet seen, so that the queue's limits hold at once.
class QueueBound {
 public:
  void limit(std::int64_t most_requests, std::int64_t most_tokens);  // before anything is submitted
  Result<> count(std::span<const Request> requests);                 // all of them, or none
  // The engine thread's: the state after it has taken over so much of what was counted.
  void publish(const EngineStatus& now, std::int64_t seen_requests, std::int64_t seen_tokens);
  EngineStatus status() const;  // what was counted and not yet seen waits

 private:
  std::int64_t most_requests_ = 0, most_tokens_ = 0;
  mutable std::mutex mutex_;  // guards all below
  EngineStatus latest_;
  std::int64_t unseen_requests_ = 0, unseen_tokens_ = 0;
};

}  // namespace espalier
