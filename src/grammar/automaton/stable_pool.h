// stable_pool.h: runs of values that never move while the pool lives, however much is added. Append only.
// Threads: one at a time. Fails: never.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/incremental_free.h"

namespace espalier::grammar {

// Runs of T in blocks that are never moved.
template <class T>
class StablePool {
 public:
  std::span<T> add(std::span<const T> values) {
    if (values.empty()) return {};
    if (values.size() > left_) {
      left_ = std::max(values.size(), std::clamp(bytes_ / sizeof(T) / kGrowth, kBlock, kLargeBlock));
      blocks_.push_back(std::make_unique<T[]>(left_));
      next_ = blocks_.back().get();
      bytes_ += left_ * sizeof(T);
    }
    const std::span<T> run(next_, values.size());
    std::copy(values.begin(), values.end(), run.begin());
    next_ += values.size();
    left_ -= values.size();
    return run;
  }
  std::size_t memory() const { return bytes_; }  // bytes

 private:
  static constexpr std::size_t kBlock = 4096 / sizeof(T) + 16, kLargeBlock = (std::size_t{1} << 20) / sizeof(T);
  static constexpr std::size_t kGrowth = 8;  // so an eighth may be unused; and many small blocks take long to free
  IncrementallyFreed<std::vector<std::unique_ptr<T[]>>> blocks_;
  T* next_ = nullptr;
  std::size_t left_ = 0, bytes_ = 0;
};

}  // namespace espalier::grammar
