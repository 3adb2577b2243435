#include "engine/stream/completion_notifier.h"

#include <exception>

#include "base/log.h"
#include "base/threads/thread_name.h"
#include "base/threads/thread_priority.h"

namespace espalier {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::microseconds kTimeSlice{100};

CompletionNotifier::CompletionNotifier(std::string name) : name_(std::move(name)), thread_([this] { work(); }) {}

void CompletionNotifier::add(std::shared_ptr<Completion> completion) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    completion->notified_ = true;
    notified_.push_back(completion);
    due_.store(true, std::memory_order_release);
    Completion& added = *completion;
    completions_.insert(&added);
    added.added_ = std::move(completion);
  }
  changed_.notify_one();
}

void CompletionNotifier::notify(Completion& completion) {
  if (completion.notified_.exchange(true)) return;
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!completion.added_) {
      completion.notified_ = false;  // not added yet, perhaps
      return;
    }
    wake = notified_.empty();
    notified_.push_back(completion.added_);
    due_.store(true, std::memory_order_release);
  }
  if (wake) changed_.notify_one();
}

void CompletionNotifier::for_each(const std::function<void(Completion&)>& visit) const {
  std::vector<std::shared_ptr<Completion>> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const Completion* completion : completions_) all.push_back(completion->added_);
  }
  for (const auto& completion : all) visit(*completion);
}

std::size_t CompletionNotifier::count() const {
  const std::scoped_lock lock(mutex_);
  return completions_.size();
}

bool CompletionNotifier::advance(Completion& completion) {
  completion.notified_ = false;  // before looking, so that nothing is missed
  std::string why;
  try {
    return completion.advance();
  } catch (const std::exception& failure) {
    why = failure.what();
  } catch (...) {
    why = "unknown failure";
  }
  log::error("the {} thread gave up a reply: {}", name_, why);
  completion.failed(why.c_str());
  return false;
}

void CompletionNotifier::forget(const std::vector<Completion*>& over) {
  std::vector<std::shared_ptr<Completion>> dying;  // destroyed outside the lock: a completion's end may notify others
  const std::scoped_lock lock(mutex_);
  for (Completion* completion : over) {
    if (completions_.erase(completion) > 0) dying.push_back(std::move(completion->added_));
  }
}

// What was notified, at the latest by `tick` where there are completions. False: this is the end.
bool CompletionNotifier::await(std::vector<std::shared_ptr<Completion>>& notified,
                               std::chrono::steady_clock::time_point tick) {
  const bool seen = spin_.spin_until([this] { return due_.load(std::memory_order_acquire); });
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return stopping_ || !notified_.empty(); };
  if (completions_.empty())
    changed_.wait(lock, ready);
  else
    changed_.wait_until(lock, tick, ready);
  if (!seen) spin_.slept();
  notified.swap(notified_);
  due_.store(stopping_, std::memory_order_relaxed);
  return !stopping_;
}

void CompletionNotifier::work() {
  name_this_thread("esp-" + name_);
  shorten_thread_slices(kTimeSlice);
  auto next_tick = std::chrono::steady_clock::now() + kTick;
  std::vector<std::shared_ptr<Completion>> batch;
  std::vector<Completion*> over;
  for (;;) {
    if (!await(batch, next_tick)) return;
    for (const auto& completion : batch) {
      if (completion->over_ || advance(*completion)) continue;
      completion->over_ = true;
      over.push_back(completion.get());
    }
    if (!over.empty()) forget(over);
    over.clear();
    batch.clear();
    if (const auto now = std::chrono::steady_clock::now(); now >= next_tick) {
      for_each([now](Completion& completion) { completion.tick(now); });
      next_tick = now + kTick;
    }
  }
}

void CompletionNotifier::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    due_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  decltype(notified_) dropped,
      notified;  // outside the lock: a completion's end may notify others, and other threads still notify
  const std::scoped_lock lock(mutex_);
  for (Completion* completion : completions_) dropped.push_back(std::move(completion->added_));
  completions_.clear();
  notified.swap(notified_);
}

}  // namespace espalier
