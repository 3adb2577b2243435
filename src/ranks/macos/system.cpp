#include "ranks/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace espalier::ranks {

UniqueFd open_shared_memory() {
  static std::atomic<int> count{0};
  const std::string name = fmt::format("/espalier-{}-{}", ::getpid(), count++);  // 31 characters at most
  UniqueFd memory(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!memory) return memory;
  ::shm_unlink(name.c_str());
  ::fcntl(memory.get(), F_SETFD, FD_CLOEXEC);
  return memory;
}

// There is no public call that waits for a word of shared memory: a waiter looks again.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (word.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void wake_all(const std::atomic<std::uint32_t>&) {}

UniqueFd watch_process(pid_t pid) {
  UniqueFd queue(::kqueue());
  struct kevent wanted;
  EV_SET(&wanted, static_cast<uintptr_t>(pid), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, nullptr);
  if (::kevent(queue.get(), &wanted, 1, nullptr, 0, nullptr) != 0) queue.reset();
  return queue;
}

void end_with_parent() {}  // whoever watches the parent ends this process

}  // namespace espalier::ranks
