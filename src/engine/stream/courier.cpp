#include "engine/stream/courier.h"

#include <exception>

#include "base/log.h"
#include "base/thread_name.h"
#include "base/thread_priority.h"

namespace espalier {

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::microseconds kTurn{100};

Courier::Courier(std::string name) : name_(std::move(name)), thread_([this] { work(); }) {}

void Courier::add(std::shared_ptr<Errand> errand) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    errand->rung_ = true;
    rung_.push_back(errand);
    due_.store(true, std::memory_order_release);
    errands_.emplace(errand.get(), std::move(errand));
  }
  changed_.notify_one();
}

void Courier::ring(Errand& errand) {
  if (errand.rung_.exchange(true)) return;
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    auto found = errands_.find(&errand);
    if (found == errands_.end()) {
      errand.rung_ = false;  // not added yet, perhaps
      return;
    }
    wake = rung_.empty();
    rung_.push_back(found->second);
    due_.store(true, std::memory_order_release);
  }
  if (wake) changed_.notify_one();
}

void Courier::for_each(const std::function<void(Errand&)>& visit) const {
  std::vector<std::shared_ptr<Errand>> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [errand, owner] : errands_) all.push_back(owner);
  }
  for (const auto& errand : all) visit(*errand);
}

std::size_t Courier::count() const {
  const std::scoped_lock lock(mutex_);
  return errands_.size();
}

bool Courier::advance(Errand& errand) {
  errand.rung_ = false;  // before looking, so that nothing is missed
  std::string why;
  try {
    return errand.advance();
  } catch (const std::exception& failure) {
    why = failure.what();
  } catch (...) {
    why = "unknown failure";
  }
  log::error("the {} thread gave up a reply: {}", name_, why);
  errand.failed(why.c_str());
  return false;
}

void Courier::forget(const std::vector<Errand*>& over) {
  std::vector<std::shared_ptr<Errand>> dying;  // destroyed outside the lock: an errand's end may ring others
  const std::scoped_lock lock(mutex_);
  for (Errand* errand : over) {
    auto found = errands_.find(errand);
    if (found == errands_.end()) continue;
    dying.push_back(std::move(found->second));
    errands_.erase(found);
  }
}

// What was rung, at the latest by `tick` where there are errands. False: this is the end.
bool Courier::await(std::vector<std::shared_ptr<Errand>>& rung, std::chrono::steady_clock::time_point tick) {
  const bool seen = brief_.look([this] { return due_.load(std::memory_order_acquire); });
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return stopping_ || !rung_.empty(); };
  if (errands_.empty())
    changed_.wait(lock, ready);
  else
    changed_.wait_until(lock, tick, ready);
  if (!seen) brief_.slept();
  rung.swap(rung_);
  due_.store(stopping_, std::memory_order_relaxed);
  return !stopping_;
}

void Courier::work() {
  name_this_thread("esp-" + name_);
  shorten_thread_turns(kTurn);
  auto next_tick = std::chrono::steady_clock::now() + kTick;
  std::vector<std::shared_ptr<Errand>> batch;
  std::vector<Errand*> over;
  for (;;) {
    if (!await(batch, next_tick)) return;
    for (const auto& errand : batch) {
      if (errand->over_ || advance(*errand)) continue;
      errand->over_ = true;
      over.push_back(errand.get());
    }
    if (!over.empty()) forget(over);
    over.clear();
    batch.clear();
    if (const auto now = std::chrono::steady_clock::now(); now >= next_tick) {
      for_each([now](Errand& errand) { errand.tick(now); });
      next_tick = now + kTick;
    }
  }
}

void Courier::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    due_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  decltype(errands_) dropped;  // outside the lock: an errand's end may ring others, and other threads still ring
  decltype(rung_) rung;
  const std::scoped_lock lock(mutex_);
  dropped.swap(errands_);
  rung.swap(rung_);
}

}  // namespace espalier
