// shared_team.h: one compute team for several engines of a process, which use it in turn.
//
// Whoever calls ComputeTeam::run() holds a Turn: an engine for a step, a model that is loaded between two reports of its
// progress. Turns are given in the order in which they were asked for, so two engines with work step alternately. Results
// do not depend on turns: a step has the whole team, as if it were alone.
// Threads: any; a Turn belongs to the thread that took it, which must not take a second one. Fails: as ComputeTeam.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/threads/compute_team.h"
#include "base/threads/yield_to_model.h"

namespace espalier {

// A compute team, whose turn it is, and whether anybody has work for it.
class SharedTeam {
 public:
  SharedTeam(int threads, ComputeTeam::Place place) : team_(threads, std::move(place)) {}

  ComputeTeam& team() { return team_; }

  // The right to run the team; waits for it.
  class Turn {
   public:
    explicit Turn(SharedTeam& shared) : shared_(shared) { shared_.take(); }
    ~Turn() { shared_.give(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void pass();  // those that wait now go first

   private:
    SharedTeam& shared_;
  };

  // While one lives, some engine has work (yield_to_model.h); all engines together compute on the team's processors.
  class Computing {
   public:
    explicit Computing(SharedTeam& shared) : shared_(shared) { shared_.begin_work(); }
    ~Computing() { shared_.end_work(); }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

   private:
    SharedTeam& shared_;
  };

 private:
  void take();
  void give();
  void begin_work();
  void end_work();

  ComputeTeam team_;
  std::atomic<std::uint32_t> next_{0}, serving_{0};  // tickets
  std::mutex mutex_;
  int working_ = 0;
  std::optional<ModelComputes> computes_;
};

}  // namespace espalier
