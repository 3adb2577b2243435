// ticket.h: what a program holds of a call under way, and the call's side of it.
// Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>

#include "lang/backends/remote/lane.h"

namespace espalier::lang {

// Shared by the ticket and the requests of its call.
struct CallState {
  std::stop_source stop;
  std::atomic<bool> ended{false};
  bool over() const { return ended || stop.stop_requested(); }
};

class Ticket final : public Call {
 public:
  Ticket(std::shared_ptr<Lane> lane, std::shared_ptr<CallState> state)
      : lane_(std::move(lane)), state_(std::move(state)) {}
  ~Ticket() override {
    if (state_->ended) return;
    state_->stop.request_stop();
    lane_->forget();
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<CallState> state_;
};

}  // namespace espalier::lang
