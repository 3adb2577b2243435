// launch.h: starts the other ranks of this host: the same program with the same arguments, and variables that tell them apart.
//
// They get our output, none of our descriptors but the node's shared memory, and end with us: whatever ends this process, the
// system ends them. They ignore SIGINT, SIGTERM and SIGHUP, which whole groups of processes are sent: this process decides.
//
//   ESP_TRY(RankPlan plan, rank_plan(flags, own_environment()));
//   if (plan.segment_fd >= 0) ESP_CHECK(follow_parent(plan));       // first of all, in a rank that was started
//   ESP_TRY(StartedRanks started, start_ranks(plan, arguments));    // nothing unless plan.starts_others()
//   ESP_TRY(auto group, join_group(plan, started, options));        // group.h, in every rank
//
// Threads: one, which must live as long as the process (the main thread): Linux counts a parent's thread as the parent.
// Fails: not_found, internal (the program cannot be started), out_of_memory, unsupported (no shared memory on this system).
#pragma once

#include <sys/types.h>
#include <string>
#include <utility>
#include <vector>

#include "base/system/unique_fd.h"
#include "espalier/error.h"
#include "ranks/rank_plan.h"

namespace espalier::ranks {

// The ranks that this process started; dropping it ends those that still run.
class StartedRanks {
 public:
  StartedRanks() = default;
  StartedRanks(StartedRanks&& other) noexcept = default;
  StartedRanks& operator=(StartedRanks&& other) noexcept;
  ~StartedRanks() { end(0); }

  const std::vector<pid_t>& pids() const { return pids_; }  // of local ranks 1, 2, ...
  int segment_fd() const { return segment_.get(); }         // -1: nothing was started
  // Waits so long for them to end by themselves (they were told goodbye), then ends them.
  void end(double grace_seconds);

 private:
  friend Result<StartedRanks> start_ranks(const RankPlan& plan, const std::vector<std::string>& arguments);
  std::vector<pid_t> pids_;
  UniqueFd segment_;
};

// `arguments`: argv of this process; the program that runs is this process's own file.
Result<StartedRanks> start_ranks(const RankPlan& plan, const std::vector<std::string>& arguments);
// In a rank that was started: end with the parent, leave signals to it.
Result<> follow_parent(const RankPlan& plan);

}  // namespace espalier::ranks
