#include "net/client/poller.h"

#include <fcntl.h>
#include <sys/event.h>

#include <array>
#include <cerrno>
#include <ctime>

namespace espalier::net {
namespace {

constexpr timespec kAtOnce{};

// One change. Asked for a receipt, kevent() tells what became of it and nothing of what is ready. Returns an errno.
int change(int queue, int fd, std::int16_t filter, unsigned what) {
  struct kevent asked{}, receipt{};
  EV_SET(&asked, static_cast<uintptr_t>(fd), filter, static_cast<std::uint16_t>(what | EV_RECEIPT), 0, 0, nullptr);
  if (::kevent(queue, &asked, 1, &receipt, 1, &kAtOnce) < 0) return errno;
  return static_cast<int>(receipt.data);
}

}  // namespace

Result<Poller> Poller::open() {
  UniqueFd queue(::kqueue());
  if (!queue) return Error{Error::Kind::out_of_memory, "no file descriptor is left (ulimit -n)", {}, {}};
  ::fcntl(queue.get(), F_SETFD, FD_CLOEXEC);
  return Poller(std::move(queue));
}

// Each direction is watched by itself; to take away what is not there is refused, and no matter.
bool Poller::watch(int fd, Interest interest, bool) {
  const int reading = change(queue_.get(), fd, EVFILT_READ, interest.readable ? EV_ADD : EV_DELETE);
  const int writing = change(queue_.get(), fd, EVFILT_WRITE, interest.writable ? EV_ADD : EV_DELETE);
  return (reading == 0 || !interest.readable) && (writing == 0 || !interest.writable);
}

void Poller::forget(int fd) {
  watch(fd, {}, true);
}

std::span<const Poller::Ready> Poller::wait(std::chrono::nanoseconds longest) {
  const timespec limit{static_cast<time_t>(longest.count() / 1'000'000'000),
                       static_cast<long>(longest.count() % 1'000'000'000)};
  std::array<struct kevent, 256> events;
  const int count = ::kevent(queue_.get(), nullptr, 0, events.data(), static_cast<int>(events.size()), &limit);
  ready_.clear();
  for (int i = 0; i < count; ++i) {
    const struct kevent& event = events[static_cast<std::size_t>(i)];
    const bool failed = (event.flags & EV_ERROR) != 0 || ((event.flags & EV_EOF) != 0 && event.fflags != 0);
    ready_.push_back(
        {static_cast<int>(event.ident), event.filter == EVFILT_READ, event.filter == EVFILT_WRITE, failed});
  }
  return ready_;
}

}  // namespace espalier::net
