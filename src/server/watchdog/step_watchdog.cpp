#include "server/watchdog/step_watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/log.h"
#include "base/steady_seconds.h"
#include "base/system/thread_waits.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "engine/engine_metrics.h"

namespace espalier::server {
namespace {

constexpr double kTimes = 100, kLeastSeconds = 1, kFirstStepSeconds = 30, kQuietSeconds = 30;
constexpr std::chrono::milliseconds kLookEvery{200};

}  // namespace

double longest_step(double expected_seconds) {
  return expected_seconds > 0 ? std::max(kLeastSeconds, kTimes * expected_seconds) : kFirstStepSeconds;
}

Result<std::unique_ptr<StepWatchdog>> StepWatchdog::make(const ModelSet& models) {
  std::unique_ptr<StepWatchdog> watchdog(new StepWatchdog(models));  // the constructor is private
  ESP_TRY(watchdog->thread_,
          start_thread<std::jthread>("watchdog", [self = watchdog.get()](const std::stop_token& stop) {
            name_this_thread("esp-watchdog");
            self->run(stop);
          }));
  return watchdog;
}

void StepWatchdog::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, kLookEvery, [] { return false; });
    if (!stop.stop_requested()) look(steady_seconds());
  }
}

void StepWatchdog::look(double now) {
  for (const auto& model : models_.look_at_all()) {
    const EngineStatus status = model->engine->status();
    const double expected = model->engine->metrics().expected_step.value(), limit = longest_step(expected);
    Watched& watched = watched_[model->name()];
    if (!watched.watch.stalled(status, now, limit)) continue;
    if (watched.told_step == status.steps || now - told_at_ < kQuietSeconds) continue;
    watched.told_step = status.steps;
    told_at_ = now;
    log::error(
        "{}: {} requests run and {} wait, but no step came to its end for {:.1f} s, where {:.3g} s were expected{}\n{}",
        model->name(), status.running, status.waiting, limit, expected,
        status.ranks.late.empty() ? "" : "; it waits for " + status.ranks.late, thread_waits());
  }
}

void StepWatchdog::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

}  // namespace espalier::server
