// sample_group.h: generations of several states that are samples of one call.
//
// States that were forked with the same text and generate the same way ask once, for as many samples as they are. The
// first that comes to its generation asks; each takes the sample of its index. The call is the group's: the state that
// asked may be dropped before the others have what they wait for.
// Threads: any. Fails: what the call fails with is the failure of all.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

class SampleGroup {
 public:
  explicit SampleGroup(std::size_t size) : size_(size) {}
  std::size_t size() const { return size_; }

  // True for the first that comes: it makes the call and gives its end to put().
  bool comes_first() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(asked_, true);
  }
  void keep(std::unique_ptr<Call> call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }
  void put(const Result<GenOutput>& output) {
    std::vector<std::function<void()>> waiting;
    {
      const std::lock_guard lock(mutex_);
      output_ = output;
      waiting.swap(waiting_);
    }
    for (const auto& then : waiting) then();
  }
  // Calls `then` once the output is there, maybe at once.
  void when_there(std::function<void()> then) {
    {
      const std::lock_guard lock(mutex_);
      if (!output_) return waiting_.push_back(std::move(then));
    }
    then();
  }
  // The sample as the output of a call of its own. Requires: when_there() has told.
  Result<GenOutput> sample(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    if (!output_->ok()) return output_->error();
    return GenOutput{{(*output_)->texts.at(index)}, {(*output_)->meta.at(index)}};
  }

 private:
  const std::size_t size_;
  mutable std::mutex mutex_;
  bool asked_ = false;
  std::optional<Result<GenOutput>> output_;
  std::vector<std::function<void()>> waiting_;
  std::unique_ptr<Call> call_;
};

}  // namespace espalier::lang
