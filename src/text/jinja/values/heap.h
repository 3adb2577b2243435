// heap.h: memory and time of one rendering.
//
// Values are never freed one by one: all memory goes at once when the rendering ends. So there is no destructor that
// could recurse, and a namespace that holds itself is harmless.
// Who wrote a text: when tracing, the heap knows of each of its bytes whether the template wrote it (own) or whether it
// may come from the conversation. Strings are views, so whatever takes parts of them keeps the bytes where they are; what
// copies bytes copies what is known of them; and bytes that lie anywhere else count as the conversation's. So nothing of
// a conversation ever counts as the template's, whatever operation is forgotten here.
// Threads: one. Fails: throws Failure of kind limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/limits.h"

namespace espalier::jinja {

// All memory of one rendering.
class Heap {
 public:
  explicit Heap(const Limits& limits, bool traces = false);

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
  // Copies, where it is known who wrote them: one byte of `own` for each (1: the template), as origins() gives them.
  std::string_view text(std::string_view bytes, std::string_view own);
  std::string_view own_text(std::string_view bytes);
  // A copy of what was made of `source` as a whole.
  std::string_view text_made_of(std::string_view source, std::string_view bytes);

  bool traces() const { return traces_; }
  // Appends one byte for each of `text`.
  void origins(std::string_view text, std::string& own) const;

  const Limits& limits() const { return limits_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    std::unique_ptr<char[]> own;  // when tracing: for each byte 1 or 0
  };
  void* allocate(std::size_t bytes);
  void add_block(std::size_t bytes);
  char* own_of(std::string_view text) const;  // null: not in this heap
  void check_time();
  [[noreturn]] void out_of_memory() const;

  Limits limits_;
  std::int64_t steps_left_;
  std::int64_t next_check_;           // look at the clock when steps_left_ falls below
  std::chrono::nanoseconds started_;  // of the thread's processor time
  std::size_t memory_left_;
  bool traces_;
  std::vector<Block> blocks_;
  std::map<const std::byte*, std::size_t> places_;  // when tracing: the blocks by where they begin
  std::byte* free_ = nullptr;
  std::size_t free_bytes_ = 0;
};

}  // namespace espalier::jinja
