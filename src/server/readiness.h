// readiness.h: where the server stands in its life: loading, ready, draining; and whether the engine seems alive.
// Threads: any. Fails: never.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "espalier/engine.h"

namespace espalier::server {

// The phase of the server's life, with the progress of loading.
class Readiness {
 public:
  enum class Phase { loading, ready, draining };

  Phase phase() const { return phase_.load(); }
  void progress(std::string_view stage, double share);
  void ready();  // unless draining already
  void drain() { phase_ = Phase::draining; }

  // "reading weights, 43 %"
  std::string loading_text() const;
  double loading_share() const;

 private:
  std::atomic<Phase> phase_{Phase::loading};
  mutable std::mutex mutex_;
  std::string stage_ = "starting";
  double share_ = 0;
};

// Sees an engine that has work and makes no step. Looked at by whoever asks for our health: the step that an idle
// engine made last may lie hours back, so what counts is the time since work was first seen with the same number of
// steps.
class StallWatch {
 public:
  // `now`: seconds of a steady clock; `limit_seconds` 0 switches the check off.
  bool stalled(const EngineStatus& status, double now, double limit_seconds);

 private:
  std::mutex mutex_;
  std::uint64_t steps_ = 0;
  double since_ = -1;  // -1: no work was seen
};

// The watches of all models, by name.
class StallWatches {
 public:
  bool stalled(const std::string& model, const EngineStatus& status, double now, double limit_seconds);

 private:
  std::mutex mutex_;
  std::map<std::string, StallWatch> watches_;
};

}  // namespace espalier::server
