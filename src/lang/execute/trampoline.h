// trampoline.h: callbacks that make others due, one after the other instead of one inside the other.
//
// States that wait for each other may stand in a chain as long as a program: the end of the first lets the second go
// on, and so forth. What becomes due while a callback of run_trampolined() runs on this thread is called when that one
// is back, so the chain takes no more stack than one link.
// Threads: any, each with a line of its own. Requires: callbacks that do not throw.
#pragma once

#include <deque>
#include <functional>
#include <iterator>
#include <vector>

namespace espalier::lang {

inline void run_trampolined(std::vector<std::function<void()>> due) {
  thread_local std::deque<std::function<void()>>* line = nullptr;  // of the outermost call on this thread
  if (line != nullptr) {
    line->insert(line->end(), std::make_move_iterator(due.begin()), std::make_move_iterator(due.end()));
    return;
  }
  std::deque<std::function<void()>> own(std::make_move_iterator(due.begin()), std::make_move_iterator(due.end()));
  struct Closing {
    ~Closing() { line = nullptr; }
  } closing;
  line = &own;
  while (!own.empty()) {
    const auto next = std::move(own.front());
    own.pop_front();
    next();
  }
}

}  // namespace espalier::lang
