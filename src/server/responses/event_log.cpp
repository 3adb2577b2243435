#include "server/responses/event_log.h"

#include <algorithm>

namespace espalier::server {

EventLog::EventLog(std::string_view stored) : ended_(true) {
  constexpr std::string_view kEnd = "\n\n";
  while (!stored.empty()) {
    const std::size_t end = std::min(stored.find(kEnd), stored.size() - 1) + kEnd.size();
    events_.emplace_back(stored.substr(0, end));
    stored.remove_prefix(std::min(end, stored.size()));
  }
}

void EventLog::append(std::string_view event) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    events_.emplace_back(event);
  }
  tell();
}

void EventLog::end() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  tell();
}

std::size_t EventLog::read(std::size_t from, std::string& out) const {
  const std::scoped_lock lock(mutex_);
  for (; from < events_.size(); ++from) out += events_[from];
  return from;
}

bool EventLog::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

std::string EventLog::all() const {
  std::string out;
  read(0, out);
  return out;
}

std::size_t EventLog::count() const {
  const std::scoped_lock lock(mutex_);
  return events_.size();
}

void EventLog::listen(const std::function<void()>& more) {
  {
    const std::scoped_lock lock(mutex_);
    listeners_.push_back(more);
  }
  more();
}

void EventLog::tell() {
  std::vector<std::function<void()>> listeners;
  {
    const std::scoped_lock lock(mutex_);
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener();
}

}  // namespace espalier::server
