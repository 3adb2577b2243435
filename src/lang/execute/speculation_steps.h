// speculation_steps.h: API speculation, as a state does it (speculation.h says what is asked when).
//
// Threads: whoever is at work in the state. Fails: never; what cannot be speculated on is carried out as without it.
#pragma once

#include <optional>
#include <vector>

#include "lang/execute/queue_item.h"
#include "lang/execute/speculation.h"

namespace espalier::lang {

// Takes part in a state's items where its back end can be asked for more than one of them at once.
class SpeculationSteps {
 public:
  explicit SpeculationSteps(StreamExecutor& state) : state_(state) {}

  void begin();                                     // for a back end that allows it, when the run wants it
  std::optional<Progress> step(QueueItem& item);    // nothing: the item is carried out as without speculation
  bool is_recording() const { return recording_; }  // the parts of an assistant's turn, until it is said as one
  // What was recorded is said piece by piece: the turn is read before it ends. The lock is let go meanwhile.
  void say_recorded(StateLock& lock);

 private:
  std::optional<Progress> of_completion(const QueueItem& item);
  std::optional<Progress> of_turn(QueueItem& item);
  Progress record(QueueItem& item);
  Progress give_up(QueueItem item);
  Progress say_turn();
  void turn_is(const std::vector<GenOutput>& outputs);

  StreamExecutor& state_;
  std::optional<CompletionSpeculation> completion_;
  std::optional<ChatSpeculation> chat_;
  bool recording_ = false;
  std::vector<QueueItem> recorded_;
};

}  // namespace espalier::lang
