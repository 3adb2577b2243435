// batch.h: many runs of a program, their results in order.
//
// A few threads run the functions, one at a time each; what a function has queued goes on without a thread, so the
// number of threads bounds the functions that wait for a value and not the calls under way.
// Threads: `begin` runs on the batch's threads; next() one.
// Fails:   what `begin` throws for an item is thrown by next(): as soon as it is known, or in its place. No item behind
//          it is begun any more; those under way are called away then, as they are when the batch is dropped
//          (waiting.h), and it is waited for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "espalier/program.h"

namespace espalier::lang {

// Which items are begun before those at the front were taken.
struct BatchWindow {
  std::size_t ahead = 200;         // so many at most
  std::size_t group = 1;           // begun together, when there is room for all of them; at most `ahead`
  bool failures_in_place = false;  // who takes one item after another has all that come before one that fails
};

// Runs the items of a batch on a few threads and gives their states back in order.
class Batch {
 public:
  // `threads`: as BatchOptions says. Fails: ProgramError when not one thread can be had.
  Batch(std::size_t items, int threads, BatchWindow window, std::function<State(std::size_t)> begin);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // The next item in order, when its state has no more to do. Requires: there is one.
  State next();

 private:
  class Queue;
  void start(std::size_t threads);
  void work();

  std::unique_ptr<Queue> queue_;
  std::function<State(std::size_t)> begin_;
  std::vector<std::thread> threads_;
};

// Calls each(i, state) for every item in order; it and the progress on the caller's thread.
void run_batch(std::size_t items, const BatchOptions& options, BatchWindow window,
               const std::function<State(std::size_t)>& begin, const std::function<void(std::size_t, State)>& each);

}  // namespace espalier::lang
