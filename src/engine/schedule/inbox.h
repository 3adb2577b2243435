// inbox.h: what other threads leave for the engine thread.
//
// Threads: put() from any; take() and wait() by the engine thread. It outlives the engine where streams still point to
// it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/adaptive_spin.h"
#include "engine/stream/stream_channel.h"
#include "espalier/request.h"

namespace espalier {

class EngineCore;
struct PromptPictures;

// A submitted request and the channel that its results go to.
struct Arrival {
  std::shared_ptr<const Request> request;
  std::shared_ptr<StreamChannel> channel;
  std::shared_ptr<const PromptPictures> pictures = nullptr;  // null: the prompt has none
};
using Command = std::function<void(EngineCore&)>;

// The engine thread's mailbox: requests, commands, and whether streams were stopped or cancelled.
class Inbox {
 public:
  struct Contents {
    std::vector<Arrival> arrivals;
    std::vector<Command> commands;  // run between steps, after the arrivals of the same taking
    bool cancellations = false;     // some stream was cancelled or stopped
    bool stopping = false;
  };

  void put(Arrival arrival) {
    change([&] { contents_.arrivals.push_back(std::move(arrival)); });
  }
  void put(Command command) {
    change([&] { contents_.commands.push_back(std::move(command)); });
  }
  void put_cancellation() {
    change([&] { contents_.cancellations = true; });
  }
  void wake() {  // there is something to do that lies elsewhere
    change([] {});
  }
  void stop() {
    change([&] { contents_.stopping = true; });
  }

  Contents take() {
    if (!filled_.load(std::memory_order_acquire)) return {};
    std::lock_guard lock(mutex_);
    filled_.store(false, std::memory_order_relaxed);
    return std::exchange(contents_, Contents{{}, {}, false, contents_.stopping});
  }
  void wait() {
    if (spin_.spin_until([&] { return filled_.load(std::memory_order_acquire); })) return;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return filled_.load(std::memory_order_relaxed); });
    }
    spin_.slept();
  }

 private:
  template <class Change>
  void change(Change apply) {
    {
      std::lock_guard lock(mutex_);
      apply();
      filled_.store(true, std::memory_order_release);
    }
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> filled_{false};
  AdaptiveSpin spin_;  // the engine thread's
  Contents contents_;
};

}  // namespace espalier
