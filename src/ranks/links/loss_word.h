// loss_word.h: the word that a peer is lost, told once to whoever watches the links.
//
// A loss before anybody watches is kept for whoever comes.
// Threads: any. Fails: never.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "ranks/links/links.h"

namespace espalier::ranks {

// Tells one loss.
class LossWord {
 public:
  void watch(Links::Lost lost);
  // The first call tells, and returns when whoever watches has been told; the others return false at once.
  bool tell(const Error& why, int node);

 private:
  std::atomic<bool> told_ = false;
  std::mutex mutex_;  // of what follows
  Links::Lost lost_;
  std::optional<std::pair<Error, int>> early_;
};

}  // namespace espalier::ranks
