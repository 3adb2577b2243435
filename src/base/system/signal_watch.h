// signal_watch.h: the signals that a program answers, kept from every thread and fetched by one.
//
// Made before the first thread is started: threads inherit what is blocked. Threads: wait(): one.
// Fails: never; a signal that cannot be kept back does what it did before.
#pragma once

#include <chrono>
#include <csignal>
#include <initializer_list>

#include "base/system/unique_fd.h"

namespace espalier {

// Keeps the given signals from this thread and those started after it, and hands them to the one that waits.
class SignalWatch {
 public:
  explicit SignalWatch(std::initializer_list<int> signals);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int wait(std::chrono::milliseconds limit) const;  // its number; 0: none came

 private:
  sigset_t set_;
  UniqueFd queue_;  // macOS
};

}  // namespace espalier
