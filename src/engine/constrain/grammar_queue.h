// grammar_queue.h: what is to be worked out in grammars, beside the engine thread: of each grammar by one thread at a
// time, since a second one would only wait for the first, and of different ones side by side. What takes long yields
// to the model and leaves its place to others (background_pool.h).
//
// Threads: submit() by one. Fails: submit() returns false, and nothing is done, when too much waits; the constructor as
// BackgroundPool's.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "base/threads/background_pool.h"

namespace espalier {

namespace grammar {
class Grammar;
}

// A queue for each grammar over one pool: work of one grammar never runs twice at once.
class GrammarQueue {
 public:
  using Work = std::function<void()>;  // keeps its grammar

  explicit GrammarQueue(BackgroundPool::Options pool) : pool_(std::move(pool)) {}

  bool submit(const grammar::Grammar* grammar, Work work);

 private:
  void run(const grammar::Grammar* grammar, const CancelFlag& cancel);

  std::mutex mutex_;
  std::unordered_map<const grammar::Grammar*, std::deque<Work>> waiting_;  // of grammars that are being worked in
  BackgroundPool pool_;                                                    // last: its threads use the others
};

}  // namespace espalier
