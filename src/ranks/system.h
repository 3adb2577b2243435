// system.h: what ranks ask of the operating system, and what systems do differently: memory that several processes have, waiting
// for a word of it to change, seeing that a process ends.
// Threads: any. Fails: as POSIX calls do: an empty descriptor, with errno set; waits return early, for any reason.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/system/unique_fd.h"

namespace espalier::ranks {

// Memory without a name, of no bytes yet (ftruncate()); it goes with the last descriptor and mapping of it.
UniqueFd open_shared_memory();

// Sleeps until wake_all(), while `word` is `seen`, no longer than `most`. Across processes.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds most);
void wake_all(const std::atomic<std::uint32_t>& word);

// Becomes readable when the process has ended. Empty with errno ESRCH: there is none.
UniqueFd watch_process(pid_t pid);

// The system ends this process when the thread that started it ends, where the system can.
void end_with_parent();

}  // namespace espalier::ranks
