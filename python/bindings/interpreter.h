// interpreter.h: when Python may be called from the library's threads, and how it is left alone meanwhile.
//
// Two rules keep locks and the GIL apart. The library is called without the GIL, because a thread of its own may hold a
// lock and wait for Python; and what belongs to the library is dropped without it, because a drop may wait for such a
// thread. At the end of the process close() makes that no thread comes back to an interpreter that is gone.
// Threads: any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "bindings.h"
#include "espalier/program.h"

namespace espalier::python {

// The functions of programs that run at this moment.
class RunningFunctions {
 public:
  class Entry {
   public:
    Entry(RunningFunctions& all, std::weak_ptr<lang::StateCore> state) : all_(all), state_(std::move(state)) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    RunningFunctions& all_;
    std::weak_ptr<lang::StateCore> state_;
  };

  // Kept while the function runs. Fails: ProgramError cancelled once closed.
  std::unique_ptr<Entry> enter(const State& state);
  bool closed() const;
  // Cancels the states of those that run and waits until their functions have returned. Without the GIL.
  void close();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::weak_ptr<lang::StateCore>, std::owner_less<std::weak_ptr<lang::StateCore>>> running_;
  bool closed_ = false;
};
RunningFunctions& running_functions();

// Calls the library without the GIL.
template <class Ask>
auto unlocked(Ask&& ask) {
  const nb::gil_scoped_release released;
  return std::forward<Ask>(ask)();
}

// Something of the library's that Python holds.
template <class T>
class Held {
 public:
  explicit Held(T value) : value_(std::move(value)) {}
  ~Held() {
    unlocked([this] { value_.reset(); });
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
};

}  // namespace espalier::python
