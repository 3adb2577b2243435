// heap.h: memory and time of one rendering.
//
// Values are never freed one by one: all memory goes at once when the rendering ends. So there is no destructor that
// could recurse, and a namespace that holds itself is harmless.
// Threads: one. Fails: throws Failure of kind limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/limits.h"

namespace espalier::jinja {

// Allocates the values of one rendering and counts its steps, memory and time.
class Heap {
 public:
  explicit Heap(const Limits& limits);

  // Time: n nodes or values are about to be looked at.
  void step(std::int64_t n = 1) {
    steps_left_ -= n;
    if (steps_left_ < next_check_) check_time();
  }
  // n bytes are about to be scanned or copied.
  void scan(std::size_t n) { step(1 + static_cast<std::int64_t>(n / 256)); }

  // Memory: n bytes more are about to be held (by this heap or by a buffer that will end up here).
  void reserve(std::size_t n) const {
    if (n > memory_left_) out_of_memory();
  }

  template <class T>
  std::span<T> array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (n > memory_left_ / sizeof(T)) out_of_memory();
    T* first = static_cast<T*>(allocate(n * sizeof(T)));
    std::uninitialized_value_construct_n(first, n);
    return {first, n};
  }

  template <class T>
  T* object(T value) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T(value);
  }

  std::string_view text(std::string_view bytes);  // a copy

  const Limits& limits() const { return limits_; }

 private:
  void* allocate(std::size_t bytes);
  void check_time();
  [[noreturn]] void out_of_memory() const;

  Limits limits_;
  std::int64_t steps_left_;
  std::int64_t next_check_;           // look at the clock when steps_left_ falls below
  std::chrono::nanoseconds started_;  // of the thread's processor time
  std::size_t memory_left_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = nullptr;
  std::size_t free_bytes_ = 0;
};

}  // namespace espalier::jinja
