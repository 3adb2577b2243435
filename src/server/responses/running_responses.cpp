#include "server/responses/running_responses.h"

namespace espalier::server {

void RunningResponses::add(const std::string& id, net::InProcessCall call, std::shared_ptr<EventLog> log) {
  const std::scoped_lock lock(mutex_);
  forget_ended();
  runs_.emplace(id, Run{std::move(call), std::move(log), {}});
}

void RunningResponses::forget_ended() {
  for (auto run = runs_.begin(); run != runs_.end();) {
    run->second.call.take(run->second.answer);
    run = run->second.call.ended() ? runs_.erase(run) : std::next(run);
  }
}

bool RunningResponses::contains(std::string_view id) {
  const std::scoped_lock lock(mutex_);
  forget_ended();
  return runs_.contains(id);
}

bool RunningResponses::empty() {
  const std::scoped_lock lock(mutex_);
  forget_ended();
  return runs_.empty();
}

std::shared_ptr<EventLog> RunningResponses::log_of(std::string_view id) {
  const std::scoped_lock lock(mutex_);
  const auto run = runs_.find(id);
  return run == runs_.end() ? nullptr : run->second.log;
}

std::optional<RunningResponses::Refusal> RunningResponses::refusal_of(std::string_view id) {
  const std::scoped_lock lock(mutex_);
  const auto run = runs_.find(id);
  if (run == runs_.end()) return std::nullopt;
  run->second.call.take(run->second.answer);
  if (!run->second.call.ended() || run->second.call.status() < 400) return std::nullopt;
  Refusal refusal{run->second.call.status(), std::move(run->second.answer)};
  runs_.erase(run);
  return refusal;
}

void RunningResponses::drop(std::string_view id) {
  Runs::node_type dropped;  // outlives the lock
  const std::scoped_lock lock(mutex_);
  if (const auto run = runs_.find(id); run != runs_.end()) dropped = runs_.extract(run);
}

void RunningResponses::stop() {
  Runs dropped;
  const std::scoped_lock lock(mutex_);
  dropped.swap(runs_);
}

}  // namespace espalier::server
