// call_templates.h: how a state makes a call and goes on when it has ended (private to the executor's files).
#pragma once

#include "lang/execute/stream_executor.h"

namespace espalier::lang {

template <class Output>
std::function<void(Result<Output>)> CallSteps::when_ended(std::function<void(StreamExecutor&, Output)> then) {
  return [weak = state_.weak_from_this(), then = std::move(then)](Result<Output> result) {
    const auto state = weak.lock();
    if (!state) return;
    std::unique_ptr<Call> over;
    {
      const StateLock lock(state->mutex_);
      ++state->calls_.ended_;
      over = std::move(state->calls_.call_);
    }
    if (result.ok())
      then(*state, std::move(result).value());
    else
      state->fail(std::move(result).error());
    state->resume();
  };
}

template <class Start>
void CallSteps::start_call(Start start) {
  std::uint64_t number;
  {
    const StateLock lock(state_.mutex_);
    number = ++begun_;
    streamed_ = 0;
  }
  auto call = start();
  const StateLock lock(state_.mutex_);
  if (ended_ < number && !state_.error_) std::swap(call_, call);
}

}  // namespace espalier::lang
