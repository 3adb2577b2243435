#include "base/threads/yield_to_model.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/threads/processors.h"

namespace espalier {
namespace {

using Clock = std::chrono::steady_clock;

// A turn for who has waited long; a step's delay by it is small beside the step.
constexpr std::chrono::microseconds kTurnOfWaiting{100}, kLongWait{3000}, kShortWait{500};

std::atomic<int> computing{0}, spare{0};  // processors
std::atomic<bool> waiting{false};
std::mutex mutex;
Clock::time_point last_turn_ended;  // or will have; of any thread
// Told without the mutex: no member of a team may wait for it, and who was not told waits no longer than ever.
std::condition_variable told;

bool processor_is_spare() {
  const int used = computing.load(std::memory_order_relaxed) - spare.load(std::memory_order_relaxed);
  return used < own_processors().granted;
}

}  // namespace

ModelComputes::ModelComputes(int processors) : processors_(processors) {
  computing.fetch_add(processors, std::memory_order_relaxed);
}

ModelComputes::~ModelComputes() {
  computing.fetch_sub(processors_, std::memory_order_relaxed);
}

void report_spare_processor() {
  spare.fetch_add(1, std::memory_order_relaxed);
  if (waiting.load(std::memory_order_relaxed) && waiting.exchange(false, std::memory_order_relaxed)) told.notify_all();
}

// All of them: a team wakes as a whole.
void reclaim_spare_processors() {
  spare.store(0, std::memory_order_relaxed);
}

void wait_for_spare_processor_time() {
  thread_local Clock::time_point turn_ends;
  if (processor_is_spare() || Clock::now() < turn_ends) return;
  std::unique_lock lock(mutex);
  for (;;) {
    waiting.store(true, std::memory_order_relaxed);
    const bool awaited = thread_has_waiters != nullptr && thread_has_waiters->load(std::memory_order_relaxed);
    const auto wait = awaited ? kShortWait : kLongWait;
    if (told.wait_for(lock, wait) == std::cv_status::no_timeout) return;
    const auto now = Clock::now();
    if (now < last_turn_ended + wait) continue;  // somebody else's
    turn_ends = last_turn_ended = now + kTurnOfWaiting;
    return;
  }
}

}  // namespace espalier
