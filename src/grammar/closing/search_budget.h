// search_budget.h: what a search through a grammar may cost, so that giving up harms nobody else who uses it.
//
// Searches add states and expressions for good. One that takes a small share of what is left of the grammar's limits
// only leaves the grammar usable, however many give up.
// Units:   steps are of some microseconds. Threads: as the automaton. Fails: never; spend() says false for good.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/threads/thread_time_budget.h"
#include "base/threads/yield_to_model.h"
#include "grammar/automaton/automaton.h"
#include "grammar/automaton/recorded_states.h"

namespace espalier::grammar {

// What one search may take in steps, time and growth of the grammar.
struct SearchLimits {
  std::size_t steps = 1'000'000;
  std::chrono::milliseconds time{300};           // of the thread
  std::chrono::milliseconds wall_time{450};      // by the clock
  std::size_t nodes = 100'000, states = 50'000;  // that it may add
};

// What is left of a search's limits.
class SearchBudget {
 public:
  SearchBudget(Automaton& automaton, const RecordedStates& recorded, const SearchLimits& limits)
      : automaton_(automaton),
        recorded_(recorded),
        steps_left_(limits.steps),
        allowance_(limits.time),
        until_(std::chrono::steady_clock::now() + limits.wall_time),
        most_nodes_(automaton.store().size() + limits.nodes),
        most_states_(states() + limits.states) {}

  // To be called for every step. False when there is nothing left.
  bool spend() {
    constexpr std::size_t kBetweenLooks = 16;
    if (steps_left_ == 0) return false;
    if (--steps_left_ % kBetweenLooks != 0) return true;
    yield_to_model();
    const bool grown = automaton_.store().size() > most_nodes_ || states() > most_states_;
    const bool late = allowance_.used_up() || std::chrono::steady_clock::now() > until_;
    if (grown || late || automaton_.exhausted() || recorded_.exhausted()) steps_left_ = 0;
    return steps_left_ > 0;
  }

 private:
  std::size_t states() const { return automaton_.size() + recorded_.size(); }

  Automaton& automaton_;
  const RecordedStates& recorded_;
  std::size_t steps_left_;
  ThreadTimeBudget allowance_;
  std::chrono::steady_clock::time_point until_;
  std::size_t most_nodes_, most_states_;
};

}  // namespace espalier::grammar
