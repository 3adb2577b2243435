// yield_to_model.h: work that can wait is done in the time that a model leaves.
//
// A step on all processors leaves some: while one thread picks tokens and takes requests the team's others sleep, a
// twentieth of the time. Whatever else takes a processor makes the step wait, as it waits for its slowest member. So
// threads that yield to it work while a processor is spare, and otherwise for a thirtieth of the time only, so that they
// come to an end; for a sixth where others wait for them; all of them together, however many they are. They do that by
// themselves, where they hold no locks: the system lets a thread of whatever priority run for a while, and one of the
// lowest may lose its processor for long with a lock that others wait for.
//
// Threads: any. What is spare is a hint; it may be wrong for a step.
// Fails:   never.
// Why:     docs/decisions/constraints.md.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

namespace espalier {

// While one lives, a model computes on so many processors, those told to be spare among them.
class ModelComputes {
 public:
  explicit ModelComputes(int processors);
  ~ModelComputes();
  ModelComputes(const ModelComputes&) = delete;
  ModelComputes& operator=(const ModelComputes&) = delete;

 private:
  const int processors_;
};

// By members of a team: before one sleeps, and where it wakes or is woken.
void report_spare_processor();
void reclaim_spare_processors();

inline thread_local bool thread_yields_to_model = false;
inline thread_local const std::atomic<bool>* thread_has_waiters = nullptr;  // null: it is not
void wait_for_spare_processor_time();

// Between pieces of work of some microseconds, where no lock is held. Nothing but a look at a variable in threads that
// do not yield to it.
inline void yield_to_model() {
  if (thread_yields_to_model) wait_for_spare_processor_time();
}

// What happens once a piece of work has taken long: where the thread that does it looks at the time.
struct LongWorkCallback {
  std::chrono::steady_clock::time_point at;
  std::function<void()> then;
};
inline thread_local LongWorkCallback* thread_long_work = nullptr;  // null: nothing does
inline void check_long_work(std::chrono::steady_clock::time_point now) {
  if (thread_long_work != nullptr && now >= thread_long_work->at) std::exchange(thread_long_work, nullptr)->then();
}

}  // namespace espalier
