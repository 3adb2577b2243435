// waiting.h: how Python waits for the library: without the GIL, seeing to signals, or not at all (an event loop).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/system/wake_descriptor.h"
#include "interpreter.h"

namespace espalier::python {

// What an event loop watches: a file descriptor that becomes readable, and the keys of those who are to go on.
// Threads: any; wake() does not wait and does not touch Python.
class Waker {
 public:
  Waker();

  int descriptor() const { return raised_.get(); }
  void wake(std::int64_t key);
  std::vector<std::int64_t> take();

 private:
  WakeDescriptor raised_;
  std::mutex mutex_;
  std::vector<std::int64_t> keys_;
};

// The library keeps it without Python's object, as its threads drop it when they are done.
using PythonWaker = Held<std::shared_ptr<Waker>>;

// One event that somebody waits for: in a thread, or in an event loop.
class WakeSignal {
 public:
  void raise();
  bool wait(std::chrono::milliseconds limit);                   // false: it was not raised; one raise ends one wait
  void notify(std::shared_ptr<Waker> waker, std::int64_t key);  // at the next raise, or now if it was raised

 private:
  std::mutex mutex_;
  std::condition_variable raised_;
  bool raise_pending_ = false;
  std::shared_ptr<Waker> waker_;
  std::int64_t key_ = 0;
};

}  // namespace espalier::python
