// pins.h: prefixes that somebody outside the scheduler keeps in memory: an operator for a system prompt, a program for
// what its forks share.
//
// Pins may hold half of the pool together, and half of the cells of states; what they share counts once. They are a wish, not a promise: when a request
// that runs alone has no room left, the oldest goes.
// Units:   tokens, seconds. Threads: the engine thread.
// Fails:   hold(): bad_request when the name is in use, busy when the pins would hold more than half of the pool or
//          of the states.
// Order:   the tree outlives it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/tree/radix_tree.h"
#include "espalier/engine.h"

namespace espalier {

// The named prefixes that are pinned in the tree, each until it is released or its time is up.
class Pins {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Pins(const RadixTree& tree, int pool_tokens, int state_cells = 0)
      : tree_(tree), most_tokens_(pool_tokens / 2), most_states_(state_cells / 2) {}

  // Keeps what was matched of `wish` under its name (or one made here).
  Result<PinInfo> hold(const PinWish& wish, Match match, Time now);
  bool release(std::string_view id);
  bool give_up_oldest();  // false: there is none
  void drop_expired(Time now);
  void clear() { pins_.clear(); }
  bool empty() const { return pins_.empty(); }
  std::vector<PinInfo> list(Time now) const;  // oldest first
  template <class F>
  void for_each_prefix(F&& visit) const {
    for (const Pin& pin : pins_) visit(pin.prefix);
  }
  template <class F>
  void for_each_state(F&& visit) const {
    for (const Pin& pin : pins_) visit(pin.state);
  }

 private:
  struct Pin {
    std::string id;
    PinnedPrefix prefix;
    std::optional<Time> until;
    bool automatic = false;
    StateCell state;  // the last one in the prefix, where the model keeps one
  };
  bool drop_oldest_automatic();
  int tokens_with(const PinnedPrefix& another) const;
  int states_with(const StateCell& another) const;
  static PinInfo info(const Pin& pin, Time now);

  const RadixTree& tree_;
  const int most_tokens_, most_states_;
  std::vector<Pin> pins_;  // in the order of their making
  std::uint64_t made_ = 0;
};

}  // namespace espalier
