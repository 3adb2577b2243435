// stream_executor_calls.h: how a state makes a call and goes on when it has ended (private to the executor's files).
#pragma once

#include "lang/execute/stream_executor.h"

namespace espalier::lang {

// The names that a list of nodes will set, those of nested ones too; one that is set twice is there twice.
std::vector<std::string> names_of(const std::vector<Node>& nodes);

// The continuation of a call: its result goes to `then`, its failure is the state's; in both cases the queue goes on.
template <class Output>
std::function<void(Result<Output>)> StreamExecutor::when_ended(std::function<void(StreamExecutor&, Output)> then) {
  return [weak = weak_from_this(), then = std::move(then)](Result<Output> result) {
    const auto self = weak.lock();
    if (!self) return;
    std::unique_ptr<Call> over;
    {
      const Lock lock(self->mutex_);
      ++self->calls_ended_;
      over = std::move(self->call_);
    }
    if (result.ok())
      then(*self, std::move(result).value());
    else
      self->fail(std::move(result).error());
    self->resume();
  };
}

// Keeps the call that `start` begins until it has ended, which may be before it is back.
template <class Start>
void StreamExecutor::start_call(Start start) {
  std::uint64_t number;
  {
    const Lock lock(mutex_);
    number = ++calls_begun_;
    streamed_ = 0;
  }
  auto call = start();
  const Lock lock(mutex_);
  if (calls_ended_ < number && !error_) std::swap(call_, call);
}

}  // namespace espalier::lang
