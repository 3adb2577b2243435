// own_ranks.h: which rank of a group this process is, the ranks that it started, and how it joins them.
//
// Order: take() first of all on the main thread, then give_to() before the engine is opened. Threads: one; the joining
// function: the one that opens the engine, once. Fails: as ranks/rank_plan.h and launch.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ranks/launch.h"
#include "serve/serve_options.h"

namespace espalier::serve {

// This process's place in a group; of one that computes alone there is nothing to join.
class OwnRanks {
 public:
  // Starts the others of this host, with these words as their command line, where it is this process that does so.
  static Result<std::unique_ptr<OwnRanks>> take(const ServeOptions& options, const std::vector<std::string>& arguments);

  const ranks::RankPlan& plan() const { return plan_; }
  bool serves() const { return plan_.rank == 0; }
  // The engine's options get their place on this host, and what joins the group. *this outlives the engine.
  void give_to(EngineOptions& engine);

 private:
  Result<std::shared_ptr<ranks::Collective>> join(const std::string& key);

  ranks::RankPlan plan_;
  ranks::StartedRanks started_;
  double start_seconds_ = 600;
  std::atomic<bool> joined_{false};
};

}  // namespace espalier::serve
