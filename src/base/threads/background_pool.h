// background_pool.h: a few threads for work that must not run on an io thread or the engine's: tokenising, templates,
// grammar compilation, image decoding.
//
// The queue is bounded: submit() refuses instead of growing it, and the caller answers 429 or 503. A task gets a
// CancelFlag and is to look at it now and then; one whose flag is raised before it starts is dropped without running.
// Budgets of steps or time are the task's own business.
//
// Units:   tasks.
// Threads: submit(), cancel() and the counters: any. stop(): any but the pool's own. Tasks start in the order of
//          submission and run at the same time; a dropped task is destroyed on a pool thread or in stop().
// A long task is known by itself: where it looks at the time (yield_to_model.h).
// Fails:   submit() returns false when the queue is full or the pool was stopped. A task that throws is counted and
//          logged; the thread goes on. Where the system refuses some of the threads the pool works with the others and
//          logs it; the constructor throws std::system_error when there is none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace espalier {

// Copies share one flag. Raised once, never lowered.
class CancelFlag {
 public:
  CancelFlag() : raised_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { raised_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return raised_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> raised_;
};

// A bounded queue of tasks and the few threads that run them in the order of submission.
class BackgroundPool {
 public:
  struct Options {
    std::string name = "side";      // of the threads, in ps and debuggers; "esp-<name>-0", at most 15 bytes are shown
    unsigned threads = 1;           // 0 counts as 1
    std::size_t queue_limit = 256;  // tasks waiting, not counting the running ones
    bool yields_to_model = false;   // whatever else the process does goes first (yield_to_model.h)
    // A task that works for longer yields to the model from then on, and another thread takes its place. 0: none does.
    std::chrono::milliseconds long_after{0};
  };

  explicit BackgroundPool(Options options);
  ~BackgroundPool() { stop(); }

  // `task` is called once as task(flag), or destroyed without a call. It may be move-only. It is destroyed before
  // submit() returns false.
  template <class Task>
  bool submit(Task&& task, CancelFlag flag = {}) {
    return enqueue(std::make_unique<Callable<std::decay_t<Task>>>(std::forward<Task>(task), std::move(flag)));
  }

  // Raises the flags of running tasks, drops waiting ones, waits for the running ones.
  void stop();

  std::size_t waiting() const;
  std::size_t running() const;
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }  // tasks that threw

 private:
  struct Job {
    explicit Job(CancelFlag cancel) : flag(std::move(cancel)) {}
    virtual ~Job() = default;
    virtual void run() = 0;
    CancelFlag flag;
  };
  template <class Task>
  struct Callable final : Job {
    Callable(Task callable, CancelFlag cancel) : Job(std::move(cancel)), task(std::move(callable)) {}
    void run() override { task(flag); }
    Task task;
  };

  bool enqueue(std::unique_ptr<Job> job);
  void work(unsigned number);
  void run(Job& job);
  void run_job(Job& job);
  void leave_place();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> queue_;
  std::vector<std::optional<CancelFlag>> active_;  // by thread: of the task it runs
  bool stopping_ = false;
  std::atomic<bool> awaited_{false};  // a task is in the queue; for who does not hold the mutex
  std::atomic<std::uint64_t> failures_{0};
  std::vector<std::thread> threads_;
  std::vector<unsigned> ended_;  // of threads_
  unsigned long_ = 0;            // threads that have left their places and work on
};

}  // namespace espalier
