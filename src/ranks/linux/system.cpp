#include "ranks/system.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <ctime>

namespace espalier::ranks {
namespace {

// No FUTEX_PRIVATE_FLAG: the word lies in memory of several processes.
void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* most) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  ::syscall(SYS_futex, &word, operation, value, most, nullptr, 0);
}

}  // namespace

UniqueFd open_shared_memory() {
  return UniqueFd(::memfd_create("espalier-ranks", MFD_CLOEXEC));
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds most) {
  const timespec limit{static_cast<time_t>(most.count() / 1000), static_cast<long>(most.count() % 1000) * 1'000'000};
  futex(word, FUTEX_WAIT, seen, &limit);
}

void wake_all(const std::atomic<std::uint32_t>& word) {
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

UniqueFd watch_process(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // closed in programs that we start
}

void end_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace espalier::ranks
