#include "base/threads/background_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/incremental_free.h"
#include "base/log.h"
#include "base/threads/thread_name.h"
#include "base/threads/thread_priority.h"
#include "base/threads/yield_to_model.h"

namespace espalier {
namespace {

constexpr unsigned kMostLong = 64;
thread_local bool thread_left_place = false;

}  // namespace

BackgroundPool::BackgroundPool(Options options) : options_(std::move(options)) {
  unsigned count = std::max(1u, options_.threads);
  active_.resize(count);
  threads_.reserve(count);
  try {
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& refused) {
    if (threads_.empty()) throw;
    log::warning("the {} pool has {} of {} threads: {}", options_.name, threads_.size(), count,
                 refused.code().message());
  }
}

bool BackgroundPool::enqueue(std::unique_ptr<Job> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= options_.queue_limit) return false;
    queue_.push_back(std::move(job));
    awaited_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_one();
  return true;
}

void BackgroundPool::work(unsigned number) {
  name_this_thread(fmt::format("esp-{}-{}", options_.name, number));
  if (options_.yields_to_model) lower_thread_priority(), thread_yields_to_model = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    auto job = std::move(queue_.front());
    queue_.pop_front();
    awaited_.store(!queue_.empty(), std::memory_order_relaxed);
    active_[number] = job->flag;
    lock.unlock();
    run(*job);
    job.reset();  // what the task captured goes before the next one is waited for, and outside the lock
    if (thread_left_place) free_what_is_left();
    lock.lock();
    active_[number].reset();
    if (thread_left_place) {
      ended_.push_back(number);
      --long_;
      return;
    }
    if (left_to_free.empty() || !queue_.empty()) continue;
    lock.unlock();
    thread_has_waiters = &awaited_;
    free_what_is_left();
    thread_has_waiters = nullptr;
    lock.lock();
  }
}

void BackgroundPool::run(Job& job) {
  if (job.flag.cancelled()) return;
  if (options_.long_after.count() == 0) return run_job(job);
  LongWorkCallback when_long{std::chrono::steady_clock::now() + options_.long_after, [this] { leave_place(); }};
  thread_long_work = &when_long;
  run_job(job);
  thread_long_work = nullptr;
}

void BackgroundPool::run_job(Job& job) {
  try {
    job.run();
  } catch (const std::exception& failure) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    log::error("a task of the {} pool failed: {}", options_.name, failure.what());
  } catch (...) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    log::error("a task of the {} pool failed", options_.name);
  }
}

// By the thread of a long task.
void BackgroundPool::leave_place() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || long_ >= kMostLong) return;
    try {
      if (ended_.empty()) {
        active_.resize(threads_.size() + 1);
        threads_.emplace_back([this, number = static_cast<unsigned>(threads_.size())] { work(number); });
      } else {
        std::thread& ended = threads_[ended_.back()];
        if (ended.joinable()) ended.join();  // it is about to end
        ended = std::thread([this, number = ended_.back()] { work(number); });
        ended_.pop_back();
      }
    } catch (const std::system_error&) {
      return;  // it keeps its place
    }
    ++long_;
  }
  thread_left_place = true;
  lower_thread_priority();
  thread_yields_to_model = true;
}

void BackgroundPool::stop() {
  std::deque<std::unique_ptr<Job>> dropped;
  std::vector<std::thread> joining;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
    joining.swap(threads_);
    for (const auto& flag : active_) {
      if (flag) flag->cancel();
    }
  }
  changed_.notify_all();
  for (auto& thread : joining) {
    if (thread.joinable()) thread.join();
  }
}

std::size_t BackgroundPool::waiting() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

std::size_t BackgroundPool::running() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(active_.begin(), active_.end(), [](const auto& f) { return !!f; }));
}

}  // namespace espalier
