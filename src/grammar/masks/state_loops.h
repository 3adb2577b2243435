// state_loops.h: how a state of an automaton repeats itself over classes of bytes, as free text does.
//
// Threads: as the automaton. Fails: never.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/closed_loops.h"

namespace espalier::grammar {

// With one more character of `inside` a state stays in its family, up to `characters` times.
struct StateLoop {
  Classes inside = 0, leaving = 0;  // leaving: classes whose bytes may lead out of the family
  std::uint32_t characters = 0;
  std::uint64_t family = 0;  // 0 = none
  bool closed = false;       // all states behind characters of `inside` are of the family
};

// Finds the loop of each state that is asked for, and remembers it.
class StateLoops {
 public:
  StateLoops(Automaton& automaton, std::uint32_t longest_token);  // in bytes

  const StateLoop& of(State state);
  bool is_endless(const StateLoop& loop) const;  // for tokens
  Classes unbounded(State state);                // of an endless loop; 0: there is none
  bool is_wide(State state);                     // many bytes may come; for fewer a walk is short
  std::size_t memory() const;                    // bytes, about

 private:
  StateLoop find(State state);
  bool counter_loop(const Frame& frame, StateLoop& loop);
  bool self_loop(State state, StateLoop& loop);
  bool closed_loop(State state, StateLoop& loop);
  Classes wide_items(Expression item);
  Classes wide_loops(State state, Classes& leaving);
  bool stays_over(State state, unsigned char lead);

  Automaton& automaton_;
  ExpressionStore& store_;
  const std::uint32_t longest_;
  Expression wide_;  // any one character that is not ASCII
  ClosedLoops closed_loops_;
  std::unordered_map<State, StateLoop> loops_;
  std::unordered_map<Expression, Classes> wide_items_;
};

}  // namespace espalier::grammar
