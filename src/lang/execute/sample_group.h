// sample_group.h: generations of several states that are samples of one call.
//
// States that were forked with the same text and generate the same way ask once, for as many samples as they are. The
// first that comes to its generation asks; each takes the sample of its index. The call is the group's: the state that
// asked may be dropped before the others have what they wait for.
// Threads: any. Fails: what the call fails with is the failure of all.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "espalier/backend.h"
#include "lang/execute/async_value.h"

namespace espalier::lang {

// One call for the samples of several states.
class SampleGroup {
 public:
  explicit SampleGroup(std::size_t size) : size_(size) {}
  std::size_t size() const { return size_; }

  // True for the first that comes: it makes the call and gives its end to put().
  bool comes_first() { return !asked_.exchange(true); }
  void keep(std::unique_ptr<Call> call) { call_ = std::move(call); }
  void put(const Result<GenOutput>& output) { output_.put(output); }
  void when_there(std::function<void()> then) { output_.when_there(std::move(then)); }
  // The sample as the output of a call of its own. Requires: when_there() has told.
  Result<GenOutput> sample(std::size_t index) const {
    const Result<GenOutput>& all = output_.value();
    if (!all.ok()) return all.error();
    return GenOutput{{all->texts.at(index)}, {all->meta.at(index)}};
  }

 private:
  const std::size_t size_;
  std::atomic<bool> asked_{false};
  AsyncValue<Result<GenOutput>> output_;
  std::unique_ptr<Call> call_;  // of the one that comes first
};

}  // namespace espalier::lang
