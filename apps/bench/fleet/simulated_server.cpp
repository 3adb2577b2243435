#include "bench/fleet/simulated_server.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier::bench {
namespace {

std::int64_t most_tokens(const PlannedRequest& call) {
  return static_cast<std::int64_t>(call.prompt().size()) + std::int64_t{call.sampling().n} * call.answer_length;
}

}  // namespace

void SimulatedServer::add(const Call& call, std::shared_ptr<StreamChannel> channel, std::int64_t now) {
  open_.push_back({call, call->sampling().n});
  most_tokens_ += most_tokens(*call);
  const std::int64_t end_of_step = clock_.nanoseconds();
  clock_.set(now);
  core_.add({call, std::move(channel)});
  clock_.set(end_of_step);
}

bool SimulatedServer::step(std::int64_t now) {
  clock_.set(now);
  step_begin_ = now;
  at_work_ = !core_.idle() && core_.step();
  busy_ += clock_.nanoseconds() - now;
  return at_work_;
}

std::vector<std::size_t> SimulatedServer::end_step() {
  at_work_ = false;
  std::vector<std::size_t> ended = model_.take_ended();
  for (const std::size_t call : ended) {
    const auto open = std::ranges::find(open_, call, [](const Open& o) { return o.call->call; });
    if (open == open_.end() || --open->choices > 0) continue;
    most_tokens_ -= most_tokens(*open->call);
    std::swap(*open, open_.back());
    open_.pop_back();
  }
  return ended;
}

void SimulatedServer::catch_up(std::int64_t before) {
  while (at_work_ && !ends_call() && step_end() < before) step(step_end());
}

// While all that is there has room in the pool nothing is retracted: who had a token has one in every step.
std::int64_t SimulatedServer::after_steps(int count) const {
  const bool going_on = most_tokens_ <= pool_tokens_ / 2;
  const auto least = static_cast<std::int64_t>(std::floor(1e9 * (1 - 1e-9) * model_.least_seconds(going_on))) - 1;
  return step_end() + std::max(count, 1) * std::max<std::int64_t>(least, 0);
}

std::int64_t SimulatedServer::earliest_end() const {
  int left = std::numeric_limits<int>::max();
  for (const Open& open : open_) left = std::min(left, open.call->answer_length - open.call->said);
  return open_.empty() ? step_end() : after_steps(left);
}

std::int64_t SimulatedServer::earliest_end(const PlannedRequest& call) const {
  return after_steps(call.answer_length - call.said);
}

}  // namespace espalier::bench
