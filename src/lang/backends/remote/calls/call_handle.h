// call_handle.h: what a program holds of a call under way, and the call's side of it.
// Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>

#include "lang/backends/remote/calls/request_queue.h"

namespace espalier::lang {

// Shared by the handle and the requests of its call.
struct CallState {
  std::stop_source stop;
  std::atomic<bool> ended{false};
  bool over() const { return ended || stop.stop_requested(); }
};

// The program's end of a remote call: dropping it gives the call up.
class CallHandle final : public Call {
 public:
  CallHandle(std::shared_ptr<RequestQueue> queue, std::shared_ptr<CallState> state)
      : queue_(std::move(queue)), state_(std::move(state)) {}
  ~CallHandle() override {
    if (state_->ended) return;
    state_->stop.request_stop();
    queue_->forget();
  }
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;

 private:
  std::shared_ptr<RequestQueue> queue_;
  std::shared_ptr<CallState> state_;
};

}  // namespace espalier::lang
