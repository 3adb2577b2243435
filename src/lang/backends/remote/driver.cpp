#include "lang/backends/remote/driver.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"

namespace espalier::lang {

struct Driver::Core {
  explicit Core(std::unique_ptr<net::TransferLoop> made) : loop(std::move(made)) {}

  void run() {
    while (!stopping) {
      loop->run(longest_turn());
      for (Work& work : take()) work();
    }
  }
  std::chrono::nanoseconds longest_turn() {
    const std::scoped_lock lock(mutex);
    if (!inbox.empty()) return std::chrono::nanoseconds(0);
    if (timers.empty()) return std::chrono::hours(1);
    return std::max<std::chrono::nanoseconds>(timers.begin()->first - Clock::now(), std::chrono::nanoseconds(0));
  }
  std::vector<Work> take() {
    const std::scoped_lock lock(mutex);
    std::vector<Work> taken = std::exchange(inbox, {});
    const auto due = timers.upper_bound(Clock::now());
    for (auto timer = timers.begin(); timer != due; ++timer) taken.push_back(std::move(timer->second));
    timers.erase(timers.begin(), due);
    return taken;
  }

  std::unique_ptr<net::TransferLoop> loop;
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::vector<Work> inbox;
  std::multimap<Clock::time_point, Work> timers;
};

Driver::Driver(std::shared_ptr<Core> core, std::thread thread) : core_(std::move(core)), thread_(std::move(thread)) {}

// Nothing is under way any more: whatever is holds the driver. The last holder may be a call that ends on our thread.
Driver::~Driver() {
  core_->stopping = true;
  core_->loop->wake();
  if (here())
    thread_.detach();
  else
    thread_.join();
}

Result<std::shared_ptr<Driver>> Driver::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Driver> living;
  const std::scoped_lock lock(mutex);
  if (auto driver = living.lock()) return driver;
  ESP_TRY(auto loop, net::TransferLoop::open());
  auto core = std::make_shared<Core>(std::move(loop));
  ESP_TRY(std::thread thread, start_thread("outgoing calls'", [core] {
            name_this_thread("esp-calls");
            core->run();
          }));
  std::shared_ptr<Driver> driver(new Driver(std::move(core), std::move(thread)));
  living = driver;
  return driver;
}

void Driver::post(Work work) {
  {
    const std::scoped_lock lock(core_->mutex);
    core_->inbox.push_back(std::move(work));
    if (core_->inbox.size() > 1) return;  // woken already
  }
  core_->loop->wake();
}

void Driver::at(Clock::time_point due, Work work) {
  {
    const std::scoped_lock lock(core_->mutex);
    core_->timers.emplace(due, std::move(work));
  }
  if (!here()) core_->loop->wake();
}

net::TransferLoop& Driver::loop() {
  return *core_->loop;
}

}  // namespace espalier::lang
