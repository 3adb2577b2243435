// score_steps.h: texts that a state has scored or embedded: collected from the queue, asked for in one call.
//
// What stands between a ScoredText and its Score goes here in place of the document.
// Threads: whoever is at work in the state; results come on the thread of the back end that was asked.
// Fails: what goes wrong is the state's error; unsupported for a back end that gives no scores.
#pragma once

#include <string>
#include <vector>

#include "lang/execute/queue_item.h"

namespace espalier::lang {

// Collects the texts of a score, asks for it, and sets its variable.
class ScoreSteps {
 public:
  explicit ScoreSteps(StreamExecutor& state) : state_(state) {}

  Progress take(const node::ScoredText& text);
  Progress take(const node::Score& score);

  bool collects() const { return each_ || !texts_.empty(); }  // a text that comes now is no part of the document
  void add(const Value& value);                               // Requires: collects()

 private:
  void finish(const node::Score& score, const ScoreCall& call, ScoreOutput output);

  StreamExecutor& state_;
  std::vector<std::string> texts_;
  bool each_ = false;  // what comes is a value that has as many texts as it has entries: none is open for it
};

}  // namespace espalier::lang
