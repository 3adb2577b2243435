// python_function.h: a function of a program that is Python's, and a batch of runs as Python holds it.
// Threads: python_function(): those that hold the GIL; what it gives runs on any, without it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lang/batch/batch.h"
#include "states.h"

namespace espalier::python {

// A Python callable that takes a state, as the library calls it.
Function python_function(nb::object body);

class PythonBatch {
 public:
  PythonBatch(std::size_t items, int threads, lang::BatchWindow window, std::function<State(std::size_t)> begin) {
    unlocked([&] { batch_.emplace(items, threads, window, std::move(begin)); });
  }
  ~PythonBatch() { close(); }

  // The next state in order, when it has no more to do.
  std::unique_ptr<PythonState> next(const nb::object& progress);
  // What runs is cancelled.
  void close() {
    unlocked([this] { batch_.reset(); });
  }

 private:
  std::optional<lang::Batch> batch_;
  std::size_t done_ = 0;
};

}  // namespace espalier::python
