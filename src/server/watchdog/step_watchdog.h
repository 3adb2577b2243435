// step_watchdog.h: looks at the engines' steps from outside and writes what every thread waits for when one takes far
// longer than was expected of it.
//
// The engine expects a step of so many rows to take what such steps took (EngineMetrics::expected_step); a hundred times
// that, and at least a second, is too long. A step is told once, and no more than one in half a minute. Nothing is
// ended: /health says when the server is stuck.
// Threads: one of its own; stop(): any. Fails: make: no_thread().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "server/models/model_set.h"
#include "server/readiness.h"

namespace espalier::server {

// How long a step may take before it is told, of what was expected of it (0: nothing was known), in seconds.
double longest_step(double expected_seconds);

// The thread that looks.
class StepWatchdog {
 public:
  static Result<std::unique_ptr<StepWatchdog>> make(const ModelSet& models);
  void stop();

 private:
  explicit StepWatchdog(const ModelSet& models) : models_(models) {}
  void run(const std::stop_token& stop);
  void look(double now);

  const ModelSet& models_;
  // Of one model: when its steps last moved on, and which one was told.
  struct Watched {
    StallWatch watch;
    std::optional<std::uint64_t> told_step;
  };
  std::map<std::string, Watched> watched_;
  double told_at_ = -1e9;
  std::jthread thread_;
};

}  // namespace espalier::server
