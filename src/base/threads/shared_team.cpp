#include "base/threads/shared_team.h"

namespace espalier {

void SharedTeam::take() {
  const std::uint32_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t now = 0; (now = serving_.load(std::memory_order_acquire)) != ticket;)
    serving_.wait(now, std::memory_order_acquire);
}

void SharedTeam::give() {
  serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  serving_.notify_all();
}

void SharedTeam::Turn::pass() {
  if (shared_.next_.load(std::memory_order_relaxed) == shared_.serving_.load(std::memory_order_relaxed) + 1) return;
  shared_.give();
  shared_.take();
}

void SharedTeam::begin_work() {
  const std::scoped_lock lock(mutex_);
  if (working_++ == 0) computes_.emplace(team_.size());
}

void SharedTeam::end_work() {
  const std::scoped_lock lock(mutex_);
  if (--working_ == 0) computes_.reset();
}

}  // namespace espalier
