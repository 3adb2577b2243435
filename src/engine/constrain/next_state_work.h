// next_state_work.h: what must come behind a token, worked out beside the engine thread.
//
// The mask that let a token through has been along all its bytes, but not further: a schema can need long for what may
// stand there. Who commits the token waits for it, but not for ever: its sequence sits out steps, as for a mask that
// takes long (row_mask.h), and the others go on. The grammar remembers what was found.
// Threads: work() by one; wait() by another. Fails: never; the grammar tells who asks it next.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "espalier/types.h"
#include "grammar/grammar.h"

namespace espalier {

// Works out forced text and closing of the state behind a token on one thread, while another may wait.
class NextStateWork {
 public:
  // before: the last tokens up to `state`. closing: also what completes the text there.
  NextStateWork(std::shared_ptr<grammar::Grammar> grammar, grammar::State state, std::vector<TokenId> before,
                bool closing)
      : grammar_(std::move(grammar)), state_(state), before_(std::move(before)), closing_(closing) {}

  void work() {
    const bool possible = grammar_->forced(state_, before_).ok();
    if (possible && closing_) static_cast<void>(grammar_->closing(state_));
    {
      const std::lock_guard lock(mutex_);
      there_ = true;
    }
    done_.notify_all();
  }
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return done_.wait_for(lock, limit, [&] { return there_; });
  }

 private:
  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::State state_;
  std::vector<TokenId> before_;
  bool closing_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool there_ = false;
};

}  // namespace espalier
