// memory_share.h: memory that several grammars take together, and what each of them takes of it.
//
// A grammar grows while texts go through it, and any number of them may be in use at once. So each says now and then
// how much it takes by now. Once all together take more than there is, those that take more than a small part must not
// grow: what most constraints ever take is always to be had.
// Units:   bytes.
// Threads: any. Fails: never.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace espalier::grammar {

// The bytes that all grammars together may take, and what they take now.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t most) : most_(most) {}
  std::size_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryShare;
  static constexpr std::size_t kSmallPart = 64;

  const std::size_t most_;
  std::atomic<std::size_t> taken_{0};
};

// Of one grammar; gives back what it took when it goes.
class MemoryShare {
 public:
  explicit MemoryShare(std::shared_ptr<MemoryBudget> budget)
      : budget_(std::move(budget)) {}  // null: as much as it likes
  ~MemoryShare() { take(0); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  // It takes so many by now. By one at a time.
  void take(std::size_t bytes) {
    const std::size_t before = taken_.exchange(bytes, std::memory_order_relaxed);
    if (budget_) budget_->taken_.fetch_add(bytes - before, std::memory_order_relaxed);  // modulo 2^64: may be negative
  }
  std::size_t taken() const { return taken_.load(std::memory_order_relaxed); }
  bool may_grow() const {
    return !budget_ || budget_->taken() <= budget_->most_ || taken() <= budget_->most_ / MemoryBudget::kSmallPart;
  }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::atomic<std::size_t> taken_{0};
};

}  // namespace espalier::grammar
