// closed_loops.h: bytes that a text may go on with for ever, whatever their order.
//
// In a string that must contain "material" somewhere, every letter may follow every other, though the states remember
// how much of the word has been read. So from such a state all tokens made of these letters may come, and nobody needs
// to read them. Found by going through the states. Where a class of bytes cannot come, it is left out, or the rarer one
// that led there: behind the % of an address only digits may come, so % is left out and not the letters.
// Units:   classes as in token_trie.h: bytes of ASCII, and whole characters by the classes of their first bytes.
// Threads: as the automaton.
// Fails:   never; where the states are too many there is none.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/token_trie.h"

namespace espalier::grammar {

// Classes of bytes that lead from a state only to states where they may all come again.
struct ClosedLoop {
  Classes inside = 0;   // 0: there is none
  Classes leaving = 0;  // of other bytes that may come in one of its states
};

// How many tokens have bytes of these classes, as a number to compare.
int tokens_with(Classes classes);

// Finds the closed loop of a state, and remembers it.
class ClosedLoops {
 public:
  explicit ClosedLoops(Automaton& automaton);

  // From `state` on; the text ends (Automaton::leaves) nowhere in it.
  const ClosedLoop& of(State state);
  std::size_t memory() const { return (known_.size() + lent_.size()) * (sizeof(ClosedLoop) + 48); }  // bytes, about

 private:
  struct Seen {
    State state;
    Classes rarest = 0;     // of the bytes that led to it; 0: it is where the loop begins
    std::uint8_t rank = 0;  // of `rarest`, by how many tokens have it
  };

  ClosedLoop find(State from);
  // Goes through the states that `inside` leads to. False: there are too many.
  bool explore(State from, Classes inside);
  void read_ascii(Seen at, Classes inside);
  void read_wide(Seen at, Classes inside);
  void add(State state, const Seen& before, unsigned char with);
  void fail(const Seen& at, unsigned char what);
  // Where all characters lead that begin with what led to `state`; none: some cannot come.
  std::optional<std::vector<State>> after_lead(State state, Expression rest);

  Automaton& automaton_;
  Expression wide_;                                     // any one character that is not ASCII
  std::unordered_map<State, ClosedLoop> known_, lent_;  // lent: there may be a better one
  std::size_t wasted_ = 0;                              // states that were gone through in vain

  std::vector<Seen> states_;                       // of the exploration
  std::unordered_map<State, std::size_t> places_;  // of these; an automaton has many states, an exploration few
  Classes failing_ = 0, coming_ = 0;
  Classes failing_at_start_ = 0;  // in any round
};

}  // namespace espalier::grammar
