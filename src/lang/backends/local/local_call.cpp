#include "lang/backends/local/local_call.h"

#include <algorithm>
#include <utility>

namespace espalier::lang {

void LocalService::stop() {
  notifier_handle->detach();
  notifier.stop();
  compilers.stop();
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

void LocalService::wait_for_room(std::shared_ptr<LocalCall> call) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(call));
}

void LocalService::wait_no_more(const LocalCall& call) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(waiting_, &call, &std::shared_ptr<LocalCall>::get);
  if (at != waiting_.end()) waiting_.erase(at);
}

bool LocalService::somebody_waits() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

bool LocalService::is_first(const LocalCall& call) const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() && waiting_.front().get() == &call;
}

void LocalService::room() {
  std::shared_ptr<LocalCall> first;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    first = waiting_.front();
  }
  notifier.notify(*first);
}

void LocalCall::begin(Result<std::vector<Request>> requests) {
  if (dropped_) return;
  if (requests.ok()) {
    requests_ = std::move(requests).value();
    // Who waits already comes first; the notifier puts this one behind them.
    const auto sent = service_.somebody_waits() ? Result<bool>(false) : submit();
    if (!sent.ok()) refusal_ = sent.error();
  } else {
    refusal_ = std::move(requests).error();
  }
  service_.notifier.add(shared_from_this());
}

Result<bool> LocalCall::submit() {
  auto streams = service_.engine->submit(requests_);
  if (!streams.ok() && streams.error().kind == Error::Kind::busy) return false;
  if (!streams.ok()) return std::move(streams).error();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    streams_.emplace_back(std::move((*streams)[i]), TextRules(requests_[i], service_.engine->tokenizer()));
    streams_.back().stream().on_ready([weak = weak_from_this(), handle = service_.notifier_handle] {
      if (const auto self = weak.lock()) handle->notify(*self);
    });
  }
  requests_.clear();
  return true;
}

void LocalCall::drop() {
  if (dropped_.exchange(true)) return;
  service_.notifier.notify(*this);
}

bool LocalCall::advance() {
  if (dropped_) {
    streams_.clear();  // cancels
    if (waits_) service_.wait_no_more(*this);
    service_.room();
    return false;
  }
  if (refusal_) return finish(*refusal_);
  if (streams_.empty()) return try_again();
  bool finished = true;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    for (TextEvent& event : streams_[i].take()) {
      const auto* ended = std::get_if<TextEnd>(&event);
      if (ended != nullptr && (ended->reason == FinishReason::error || ended->reason == FinishReason::abort))
        return finish(ended->error.message.empty() ? Error{Error::Kind::cancelled, "the request was aborted", {}, {}}
                                                   : ended->error);
      add(i, std::move(event));
    }
    finished = finished && streams_[i].finished();
  }
  if (finished) return go_on();
  settle();
  return true;
}

bool LocalCall::go_on() {
  auto more = next();
  if (!more.ok()) return finish(std::move(more).error());
  if (more->empty()) return finish(success());
  streams_.clear();
  requests_ = std::move(more).value();
  const bool goes_on = try_again();
  service_.room();  // of those that have ended
  return goes_on;
}

bool LocalCall::try_again() {
  if (waits_ ? !service_.is_first(*this) : service_.somebody_waits()) {
    wait_for_room();
    return true;
  }
  const auto sent = submit();
  if (!sent.ok()) return finish(sent.error());
  if (!*sent) {
    wait_for_room();
  } else if (std::exchange(waits_, false)) {
    service_.wait_no_more(*this);
    service_.room();  // there may be more of it
  }
  return true;
}

void LocalCall::wait_for_room() {
  if (!std::exchange(waits_, true)) service_.wait_for_room(shared_from_this());
}

// Others than programs may use the engine: their ends notify nobody here.
void LocalCall::tick(Time) {
  if (waits_ && service_.is_first(*this)) service_.notifier.notify(*this);
}

bool LocalCall::finish(Result<> result) {
  streams_.clear();
  if (std::exchange(waits_, false)) service_.wait_no_more(*this);
  if (!dropped_) end(std::move(result));
  service_.room();
  return false;
}

void LocalCall::failed(const char* why) {
  if (!dropped_) end(internal_error(why));
}

void LocalCall::cancel(Error why) {
  refusal_ = std::move(why);
}

}  // namespace espalier::lang
