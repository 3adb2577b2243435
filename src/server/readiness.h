// readiness.h: where the server stands in its life: loading, ready, draining; and whether the engine seems alive.
// Threads: any. Fails: never.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "espalier/engine.h"

namespace espalier::server {

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

// Work waits or runs and no step was made for `limit_seconds`; 0 switches the check off.
bool stalled(const EngineStatus& status, double limit_seconds);

}  // namespace espalier::server
