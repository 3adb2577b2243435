// work_limits.h: when work that nobody can foresee has to end: at a moment, after so much of a thread's time, or when
// there is no more room.
//
// Makers of expressions tell of every piece of work; the limits are looked at now and then.
// Threads: one at a time. Fails: never; exhausted() turns true for good.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/threads/thread_time_budget.h"

namespace espalier::grammar {

// The limits of one store of expressions.
class WorkLimits {
 public:
  // For every piece of work. False when it has to end.
  bool spend();
  bool exhausted() const { return exhausted_; }
  void exhaust() { exhausted_ = true; }  // a maker of expressions has reached a limit of its own

  void set_deadline(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  // When the thread has worked for so long; nothing: for as long as it likes.
  void set_allowance(std::optional<ThreadTimeBudget> allowance) { allowance_ = allowance; }
  // When this says no.
  void set_room(std::function<bool()> room) { room_ = std::move(room); }

 private:
  bool exhausted_ = false;
  std::uint32_t spent_ = 0;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::optional<ThreadTimeBudget> allowance_;
  std::function<bool()> room_;
};

}  // namespace espalier::grammar
