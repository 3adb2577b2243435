#include "lang/backends/local/local_call.h"

#include <utility>

namespace espalier::lang {

LocalService::~LocalService() {
  bell->silence();
  courier.stop();
  compilers.stop();
}

void LocalService::wait_for_room(std::shared_ptr<LocalCall> call) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(call));
}

void LocalService::room() {
  std::shared_ptr<LocalCall> next;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  courier.ring(*next);
}

void LocalCall::begin(Result<std::vector<Request>> requests) {
  if (dropped_) return;
  if (requests.ok()) {
    requests_ = std::move(requests).value();
    const auto sent = submit();
    if (!sent.ok()) refusal_ = sent.error();
  } else {
    refusal_ = std::move(requests).error();
  }
  service_.courier.add(shared_from_this());
}

Result<bool> LocalCall::submit() {
  auto streams = service_.engine->submit(requests_);
  if (!streams.ok() && streams.error().kind == Error::Kind::busy) return false;
  if (!streams.ok()) return std::move(streams).error();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    streams_.emplace_back(std::move((*streams)[i]), service_.engine->tokenizer(), requests_[i].sampling());
    streams_.back().stream().on_ready([weak = weak_from_this(), bell = service_.bell] {
      if (const auto self = weak.lock()) bell->ring(*self);
    });
  }
  requests_.clear();
  return true;
}

void LocalCall::drop() {
  if (dropped_.exchange(true)) return;
  service_.courier.ring(*this);
}

bool LocalCall::advance() {
  if (dropped_) {
    streams_.clear();  // cancels
    service_.room();
    return false;
  }
  if (refusal_) return finish(*refusal_);
  if (streams_.empty()) {
    const auto sent = submit();
    if (!sent.ok()) return finish(sent.error());
    if (!*sent) service_.wait_for_room(shared_from_this());
    return true;
  }
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
  if (finished) return finish(success());
  settle();
  return true;
}

// Others than programs may use the engine: their ends ring nobody here.
void LocalCall::tick(Time) {
  if (!requests_.empty()) service_.courier.ring(*this);
}

bool LocalCall::finish(Result<> result) {
  streams_.clear();
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
