#include "cache/disk/io_buffers.h"

namespace espalier {

IoBuffer& IoBuffer::operator=(IoBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = std::move(other.memory_);
  return *this;
}

void IoBuffer::reset() {
  if (auto pool = std::exchange(pool_, nullptr)) pool->give_back(std::exchange(memory_, {}));
}

IoBuffer IoBuffers::acquire_until(std::chrono::steady_clock::time_point time) {
  PageBuffer memory;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return stopped_ || left_ > 0; };
    if (time == std::chrono::steady_clock::time_point::max())
      freed_.wait(lock, ready);
    else if (time != std::chrono::steady_clock::time_point::min())
      freed_.wait_until(lock, time, ready);
    if (stopped_ || left_ == 0) return {};
    --left_;
    if (!free_.empty()) {
      memory = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (memory.size() == 0) {
    auto fresh = PageBuffer::allocate(bytes_);
    if (!fresh.ok()) {
      give_back({});
      return {};
    }
    memory = std::move(fresh).value();
    if (pin_) {
      auto pinned = pin_({memory.data(), memory.size()});
      const std::lock_guard lock(mutex_);
      pinned_.push_back(std::move(pinned));
    }
  }
  return {shared_from_this(), std::move(memory)};
}

void IoBuffers::give_back(PageBuffer memory) {
  {
    std::lock_guard lock(mutex_);
    ++left_;
    if (memory.size() > 0) free_.push_back(std::move(memory));
  }
  freed_.notify_one();
}

void IoBuffers::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  freed_.notify_all();
}

int IoBuffers::in_use() const {
  std::lock_guard lock(mutex_);
  return count_ - left_;
}

}  // namespace espalier
