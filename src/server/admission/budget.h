// budget.h: a bounded sum that requests are charged to; dropping the charge is the only way to give it back.
// Units: whatever the owner counts. Threads: any. Fails: charge(): busy when the sum would pass the limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "espalier/error.h"

namespace espalier::server {

// A limit and the sum of what is charged to it now.
class Budget {
 public:
  class Charge {
   public:
    Charge() = default;
    Charge(Budget& owner, std::int64_t amount) : owner_(&owner), amount_(amount) {}
    Charge(Charge&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), amount_(other.amount_) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Charge() {
      if (owner_ != nullptr) owner_->used_.fetch_sub(amount_);
    }

   private:
    Budget* owner_ = nullptr;
    std::int64_t amount_ = 0;
  };

  explicit Budget(std::int64_t limit) : limit_(limit) {}

  // `too_many`: what the client is told, "too many ...; try again later".
  Result<Charge> charge(std::int64_t amount, const std::string& too_many) {
    if (used_.fetch_add(amount) + amount <= limit_) return Charge(*this, amount);
    used_.fetch_sub(amount);
    return Error{Error::Kind::busy, too_many, {}, {}};
  }
  std::int64_t used() const { return used_; }

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
};

}  // namespace espalier::server
