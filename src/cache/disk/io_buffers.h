// io_buffers.h: a fixed number of equal pieces of page-aligned memory for reading and writing files; the bound on what
// is in flight.
//
// Units:   bytes. Threads: any. Fails: acquire returns an invalid buffer when none is free (or memory is short), when
//          the time is up, or after stop(). Memory is taken when a buffer is first needed and kept.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "tensor/page_buffer.h"

namespace espalier {

class IoBuffers;

// Goes back to its pool when it is destroyed.
class IoBuffer {
 public:
  IoBuffer() = default;
  IoBuffer(IoBuffer&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), memory_(std::move(other.memory_)) {}
  IoBuffer& operator=(IoBuffer&& other) noexcept;
  ~IoBuffer() { reset(); }

  bool valid() const { return pool_ != nullptr; }
  std::span<std::byte> bytes() const { return {memory_.data(), memory_.size()}; }
  void reset();

 private:
  friend class IoBuffers;
  IoBuffer(std::shared_ptr<IoBuffers> pool, PageBuffer memory) : pool_(std::move(pool)), memory_(std::move(memory)) {}

  std::shared_ptr<IoBuffers> pool_;
  PageBuffer memory_;
};

// The fixed set of buffers: acquiring waits for a free one, up to a time.
class IoBuffers : public std::enable_shared_from_this<IoBuffers> {
 public:
  // Makes memory ready for a device's own copies, as long as what it returns is held. Any thread may call it.
  using Pin = std::function<std::shared_ptr<void>(std::span<std::byte>)>;
  IoBuffers(std::size_t bytes, int count, Pin pin = {})
      : bytes_(bytes), pin_(std::move(pin)), left_(count), count_(count) {}

  IoBuffer try_acquire() { return acquire_until(std::chrono::steady_clock::time_point::min()); }
  IoBuffer acquire() { return acquire_until(std::chrono::steady_clock::time_point::max()); }
  IoBuffer acquire_until(std::chrono::steady_clock::time_point time);
  void stop();  // nobody waits any more
  int in_use() const;

 private:
  friend class IoBuffer;
  void give_back(PageBuffer memory);

  const std::size_t bytes_;
  const Pin pin_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<PageBuffer> free_;
  std::vector<std::shared_ptr<void>> pinned_;
  int left_;  // buffers that nobody holds
  const int count_;
  bool stopped_ = false;
};

}  // namespace espalier
