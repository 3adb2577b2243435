#include "server/models/model_fetches.h"

#include "base/threads/start_thread.h"

namespace espalier::server {

Result<> ModelFetches::begin(std::function<void(const ModelFetch&, std::stop_token)> work) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) return Error{Error::Kind::unavailable, "the server is shutting down", {}, "draining"};
  std::erase_if(running_, [](const Running& one) { return one.done; });
  if (running_.size() >= kAtOnce)
    return Error{
        Error::Kind::busy, "four models are being fetched already; try again when one of them is there", {}, {}};
  Running& one = running_.emplace_back();
  auto thread =
      start_thread<std::jthread>("model fetching", [this, &one, work = std::move(work)](std::stop_token stop) {
        work(fetch_, std::move(stop));
        const std::scoped_lock until_done(mutex_);
        one.done = true;
      });
  if (!thread.ok()) {
    running_.pop_back();
    return std::move(thread).error();
  }
  one.thread = std::move(thread).value();
  return success();
}

void ModelFetches::stop() {
  std::list<Running> ending;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    ending.swap(running_);  // the places of its elements stay
  }
  for (Running& one : ending) one.thread.request_stop();
}  // and joined

}  // namespace espalier::server
