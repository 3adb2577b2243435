#include "engine/schedule/queue_bound.h"

#include <fmt/format.h>

#include "espalier/request.h"

namespace espalier {
namespace {

Error queue_full(std::int64_t waiting, const char* what, std::int64_t most, const char* flag, const char* code) {
  return Error{
      Error::Kind::busy,
      fmt::format("the queue is full: {} {}, {} are allowed (--{}); try again later", waiting, what, most, flag),
      {},
      code};
}

}  // namespace

void QueueBound::limit(std::int64_t most_requests, std::int64_t most_tokens) {
  most_requests_ = most_requests;
  most_tokens_ = most_tokens;
}

Result<> QueueBound::count(std::span<const Request> requests) {
  std::int64_t choices = 0, tokens = 0;
  for (const Request& request : requests) {
    choices += request.sampling().n;
    tokens += std::ssize(request.prompt()) * request.sampling().n;
  }
  if (choices > most_requests_)
    return bad_request(fmt::format("{} prompts with {} choices in all are more than this server ever takes at once, "
                                   "which is {} (--max-running-requests and --max-queued-requests); send fewer",
                                   requests.size(), choices, most_requests_),
                       "n");
  std::lock_guard lock(mutex_);
  const std::int64_t in_system = latest_.running + latest_.waiting + unseen_requests_;
  if (in_system + choices > most_requests_)
    return queue_full(in_system, "requests run or wait", most_requests_, "max-queued-requests", "queue_full");
  const std::int64_t queued = latest_.waiting_tokens + unseen_tokens_;
  if (queued > 0 && queued + tokens > most_tokens_)
    return queue_full(queued, "prompt tokens wait", most_tokens_, "max-queued-tokens", "tokens_queued");
  unseen_requests_ += choices;
  unseen_tokens_ += tokens;
  return success();
}

void QueueBound::publish(const EngineStatus& now, std::int64_t seen_requests, std::int64_t seen_tokens) {
  std::lock_guard lock(mutex_);
  unseen_requests_ -= seen_requests;
  unseen_tokens_ -= seen_tokens;
  latest_ = now;
}

EngineStatus QueueBound::status() const {
  std::lock_guard lock(mutex_);
  EngineStatus status = latest_;
  status.waiting += static_cast<int>(unseen_requests_);
  status.waiting_tokens += unseen_tokens_;
  return status;
}

}  // namespace espalier
