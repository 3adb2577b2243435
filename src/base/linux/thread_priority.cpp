#include "base/threads/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace espalier {
namespace {

using std::chrono::microseconds;

// What yields to the model does so by itself (yield_to_model.h), but not everywhere: where it does not, it should have a tenth
// of the processor beside a thread that wants all of it, in turns that are short.
constexpr int kNice = 10;
constexpr microseconds kTimeSlice{100};

// The kernel's struct sched_attr, which older C libraries do not have and newer ones declare too.
struct Attributes {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t niceness;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;  // ns
};

int niceness() {
  return ::getpriority(PRIO_PROCESS, 0);  // Linux: of the thread
}

// Who wakes with shorter turns than the running thread's has its processor at once (from Linux 6.12 on; before that all
// are alike). 0: the usual ones, of about 3 ms.
void set_turn(microseconds turn, int niceness) {
  Attributes wanted{};
  wanted.size = sizeof(wanted);
  wanted.policy = SCHED_OTHER;
  wanted.niceness = niceness;
  wanted.runtime = static_cast<std::uint64_t>(std::chrono::nanoseconds(turn).count());
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &wanted, 0u));
}

}  // namespace

void shorten_thread_slices(microseconds turn) {
  set_turn(turn, niceness());
}

void lower_thread_priority() {
  set_turn(kTimeSlice, std::max(niceness(), kNice));
}

}  // namespace espalier
