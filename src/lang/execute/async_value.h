// async_value.h: a value that comes once, and those who wait for it.
// Threads: any. Order: put() once.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace espalier::lang {

// A value that is put once, with callbacks for those who wait for it.
template <class T>
class AsyncValue {
 public:
  void put(T value) {
    std::vector<std::function<void()>> waiting;
    {
      const std::lock_guard lock(mutex_);
      value_ = std::move(value);
      waiting.swap(waiting_);
    }
    for (const auto& then : waiting) then();
  }
  // Calls `then` once the value is there, maybe at once.
  void when_there(std::function<void()> then) {
    {
      const std::lock_guard lock(mutex_);
      if (!value_) return waiting_.push_back(std::move(then));
    }
    then();
  }
  bool is_there() const {
    const std::lock_guard lock(mutex_);
    return value_.has_value();
  }
  // Requires: it is there.
  const T& value() const {
    const std::lock_guard lock(mutex_);
    return *value_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<T> value_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace espalier::lang
