// automaton.h: what has been read so far and what may follow, for grammars with rules.
//
// A state is a set of frames: an expression that is being read, and the state that goes on when it has been read (the
// caller's rest). Frames with the same expression share one, with their callers united, so that ambiguity does not
// multiply stacks. States are numbers and are kept once; each knows, from its first use on, where every byte leads.
//
// A state stands for all the stacks that its frames and their callers spell. A rule is opened on those only that it
// leaves within the limit (within()): each on its own, so that whoever follows one of them apart from the others
// (token_masks.h) comes to the same end.
//
// Two states stand for callers that are not part of the grammar: `outside` (the text ends here) and `unknown` (what
// follows a lexeme whose tokens are collected for all places where it may stand).
//
// Threads: as the store; one at a time.
// Fails:   never; beyond the limits exhausted() turns true for good and states lead nowhere.
// Source:  states are the configurations of a graph-structured stack (Tomita, 1986), built while text is read.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/block_list.h"
#include "grammar/automaton/expression.h"
#include "grammar/automaton/stable_pool.h"

namespace espalier::grammar {

using State = std::uint32_t;

// An expression that is being read, and the state to go on in behind it.
struct Frame {
  Expression at = 0;
  State caller = 0;
  bool operator==(const Frame&) const = default;
};

// How far the automaton may grow, and how deep rules may be open.
struct AutomatonLimits {
  std::size_t states = 1'000'000;
  std::size_t frames = 4096;   // in one state
  std::uint32_t depth = 1000;  // of frames, each the next one's caller; a rule that would open more is not allowed
};

// States over an ExpressionStore, made as texts reach them; next() reads a byte.
class Automaton {
 public:
  static constexpr State dead = 0, outside = 1, unknown = 2;

  Automaton(ExpressionStore& store, AutomatonLimits limits);

 private:
  static constexpr std::uint32_t kUnexpanded = 0xffffffff;
  static constexpr std::uint8_t kNone = 0xff;
  struct ByteMap {
    static constexpr std::size_t kFew = 4;
    std::array<std::uint8_t, 256> branch;  // kNone: nowhere
    std::array<unsigned char, kFew> few{};
    std::uint16_t size = 0;  // bytes that lead somewhere
  };

 public:
  State start(Expression expression, State caller = outside) { return single({expression, caller}); }
  State next(State state, unsigned char byte) {
    const Entry& entry = states_[state];
    if (entry.map == kUnexpanded) expand(state);
    const Entry& known = states_[state];
    const std::uint8_t branch = maps_[known.map].branch[byte];
    return branch == kNone ? dead : known.targets[branch];
  }
  // The same where nobody will ask for other bytes: a state that nobody has been to remains so.
  State next_once(State state, unsigned char byte) {
    const Entry& entry = states_[state];
    if (entry.map != kUnexpanded || entry.frames.size() != 1 || store_.calls(entry.frames[0].at))
      return next(state, byte);
    const Frame frame = entry.frames[0];
    return single({store_.derivative(frame.at, byte), frame.caller});
  }
  // Where every byte leads from one state; stays valid while the automaton lives.
  class Row {
   public:
    State next(unsigned char byte) const {
      return map_->branch[byte] == kNone ? State{dead} : targets_[map_->branch[byte]];
    }
    unsigned size() const { return map_->size; }  // bytes that lead somewhere
    bool is_narrow() const { return map_->size <= ByteMap::kFew; }
    // All bytes that lead somewhere, if it is narrow.
    std::span<const unsigned char> bytes() const { return std::span(map_->few).first(map_->size); }

   private:
    friend class Automaton;
    const ByteMap* map_ = nullptr;
    const State* targets_ = nullptr;
  };
  Row row(State state) {
    if (states_[state].map == kUnexpanded) expand(state);
    Row row;
    row.map_ = &maps_[states_[state].map];
    row.targets_ = states_[state].targets;
    return row;
  }
  bool complete(State state) const { return states_[state].complete; }  // the text may end here
  bool leaves(State state) const { return states_[state].leaves; }      // what follows is unknown
  std::span<const Frame> frames(State state) const { return states_[state].frames; }
  // What a rule that is opened in front of `caller` goes on with when it ends; dead: it would be one too many.
  State open(State caller) {
    return states_[caller].depth < limits_.depth ? caller : within(caller, limits_.depth - 1);
  }
  // Whether rules cannot be opened here that could be under a higher limit.
  bool meets_depth(State state);
  // A state of some of a state's frames.
  State some(std::vector<Frame> frames) { return closure(std::move(frames)); }
  State unite(State a, State b);
  // The state with these of its frames only.
  State only(State state, std::vector<Frame> frames) {
    return unite_all(std::move(frames), states_[state].complete, states_[state].leaves);
  }

  struct Branch {
    ByteSet on;
    State to = dead;
  };
  std::vector<Branch> branches(State state);  // all that can come next
  bool is_empty(State state) const { return states_[state].frames.empty(); }

  std::size_t size() const { return states_.size(); }
  std::size_t memory() const;  // bytes, about, without the store's
  bool exhausted() const { return exhausted_ || store_.exhausted(); }
  ExpressionStore& store() { return store_; }

 private:
  struct Entry {
    std::span<const Frame> frames;
    const State* targets = nullptr;
    std::uint32_t map = kUnexpanded;
    std::uint16_t depth = 0, least_depth = 0;  // of the stacks that it stands for: the highest, the lowest
    std::uint16_t target_count = 0;
    bool complete = false, leaves = false;
  };
  struct Read {  // one way to go on
    ByteSet on;
    Frame to;
  };

  State single(Frame frame);
  State closure(std::vector<Frame> frames);
  State unite_all(std::vector<Frame> frames, bool complete, bool leaves);
  State intern(std::span<const Frame> frames, bool complete, bool leaves);
  State within(State state, std::uint32_t depth);
  void grow_table();
  void expand(State state);
  bool expand_single(State state);
  void finish(State state, std::uint32_t map, std::span<const State> targets);
  std::vector<Read> reads(State state);
  std::uint32_t map_number(const std::array<std::uint8_t, 256>& branch);

  ExpressionStore& store_;
  AutomatonLimits limits_;
  bool exhausted_ = false;
  BlockList<Entry> states_;
  std::vector<std::uint32_t> table_;
  std::vector<std::uint64_t> hashes_;
  StablePool<Frame> frame_pool_;
  StablePool<State> target_pool_;
  std::deque<ByteMap> maps_;  // do not move
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> map_numbers_;
  std::unordered_map<Expression, std::uint32_t> step_maps_;    // of steps that call no rules
  std::unordered_map<std::uint64_t, State> unions_, lowered_;  // lowered_: by state and depth
  bool met_depth_ = false;                                     // in front of some rule, since it was last looked at
  std::vector<State> targets_;                                 // of the state that is being expanded
};

}  // namespace espalier::grammar
