// recorded_states.h: states that remember the text of a word that is being read, because what may follow depends on it.
//
// An automaton forgets what it has read. Where a rule is followed by an awaiting expression (ExpressionStore::awaiting:
// the items of an array that must differ), a state of the automaton is paired with the text since the outermost such
// rule began; when the rule ends the source is given the text, and says what may follow. Everywhere else states are the
// automaton's own. One that remembers is a number too, above all others, kept once.
//
// What an automaton allows by itself is what some text before would allow: masks and forced text are found in plain
// states, then refused() names the tokens that only the text rules out.
// Units:   about 60 bytes for every byte of such a text.
// Threads: as the automaton.
// Fails:   never; beyond the automaton's limit of states exhausted() turns true for good.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/vocabulary.h"

namespace espalier::grammar {

// The automaton's states, extended by those that carry the text since an outermost rule began.
class RecordedStates {
 public:
  RecordedStates(Automaton& automaton, std::size_t most) : automaton_(automaton), most_(most) {}

  State read(State from, unsigned char byte) {
    return automaton_.store().sources().records() ? read_recorded(from, byte) : automaton_.next(from, byte);
  }
  // The automaton's state, without the text.
  State plain(State state) const { return is_recorded(state) ? recorded_[state - kRecorded].state : state; }
  // Of tokens that the plain state allows those that the text does not.
  std::vector<TokenId> refused(State state, const Vocabulary& vocabulary, const MaskWords& mask);

  std::size_t size() const { return recorded_.size(); }
  bool exhausted() const { return exhausted_; }
  std::size_t memory() const;  // bytes, about

 private:
  using Text = std::uint32_t;  // a number; 0 = the empty text
  static constexpr State kRecorded = 0x80000000;
  static bool is_recorded(State state) { return state >= kRecorded; }

  struct Recorded {
    State state;
    Text text;
  };
  struct Letter {
    Text before;
    unsigned char byte;
  };
  struct Nature {
    bool known = false, records = false, awaits = false, few = false;
  };

  State read_recorded(State from, unsigned char byte);
  State resolve(State state, Text text);
  State numbered(State state, Text text);
  Nature nature(State state);
  Text longer(Text text, unsigned char byte);
  std::string written(Text text) const;
  bool has_ways(State state);
  bool depends_on_text(State state, std::string_view token);
  const std::vector<TokenId>& crossing(State plain, const Vocabulary& vocabulary, const MaskWords& mask);

  Automaton& automaton_;
  std::size_t most_;
  bool exhausted_ = false;
  std::vector<Nature> natures_;  // by plain state
  std::vector<Recorded> recorded_;
  std::unordered_map<std::uint64_t, State> numbers_;
  std::vector<Letter> letters_{{0, 0}};
  std::unordered_map<std::uint64_t, Text> texts_;
  std::unordered_map<State, std::vector<TokenId>> crossing_;
};

}  // namespace espalier::grammar
