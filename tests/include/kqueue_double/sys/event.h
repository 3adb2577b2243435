// sys/event.h: as much of kqueue(2) as net/client/macos/poller.cpp uses, after its manual page, over Linux's epoll: so
// that the file is run by poller_test.cpp on machines without it. A queue is an epoll descriptor, which forgets what is
// closed, as a kernel queue does.
// Threads: one.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <utility>

constexpr std::int16_t EVFILT_READ = -1, EVFILT_WRITE = -2;
constexpr std::uint16_t EV_ADD = 0x1, EV_DELETE = 0x2, EV_RECEIPT = 0x40, EV_ERROR = 0x4000, EV_EOF = 0x8000;

struct kevent {
  std::uintptr_t ident;
  std::int16_t filter;
  std::uint16_t flags;
  std::uint32_t fflags;
  std::intptr_t data;
  void* udata;
};

inline void EV_SET(struct kevent* event, std::uintptr_t ident, std::int16_t filter, std::uint16_t flags,
                   std::uint32_t fflags, std::intptr_t data, void* udata) {
  *event = {ident, filter, flags, fflags, data, udata};
}

inline int kqueue() {
  return ::epoll_create1(0);
}

namespace kqueue_double {

// The directions that were added for a queue's descriptors; those of one that was closed stay until epoll says so.
inline std::map<std::pair<int, int>, std::uint32_t>& added() {
  static std::map<std::pair<int, int>, std::uint32_t> all;
  return all;
}

inline int apply(int queue, const struct kevent& change) {
  const int fd = static_cast<int>(change.ident);
  const std::uint32_t direction = change.filter == EVFILT_READ ? EPOLLIN | EPOLLRDHUP : EPOLLOUT;
  std::uint32_t& directions = added()[{queue, fd}];
  epoll_event event{directions, {.fd = fd}};
  if (directions != 0 && ::epoll_ctl(queue, EPOLL_CTL_MOD, fd, &event) != 0) directions = 0;
  const bool there = (directions & direction) != 0;
  if ((change.flags & EV_DELETE) && !there) return ENOENT;
  const std::uint32_t before =
      std::exchange(directions, (change.flags & EV_DELETE) ? directions & ~direction : directions | direction);
  event.events = directions;
  const int call = directions == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(queue, call, fd, &event) == 0) return 0;
  directions = before;
  return errno;
}

inline std::uint32_t error_of(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? static_cast<std::uint32_t>(error) : 0;
}

}  // namespace kqueue_double

// Changes must ask for a receipt and are then all that the call is about.
inline int kevent(int queue, const struct kevent* changes, int change_count, struct kevent* events, int event_count,
                  const timespec* limit) {
  if (change_count > 0) {
    for (int i = 0; i < change_count; ++i) {
      if (!(changes[i].flags & EV_RECEIPT) || event_count < change_count) return errno = EINVAL, -1;
      events[i] = changes[i];
      events[i].flags = EV_ERROR;
      events[i].data = kqueue_double::apply(queue, changes[i]);
    }
    return change_count;
  }
  epoll_event ready[64];
  const auto wait = static_cast<int>(limit->tv_sec * 1000 + limit->tv_nsec / 1'000'000);
  const int count = ::epoll_wait(queue, ready, event_count < 128 ? event_count / 2 : 64, wait);
  int told = 0;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    const std::uint32_t came = ready[i].events, asked = kqueue_double::added()[{queue, fd}];
    const bool failed = (came & EPOLLERR) != 0, over = failed || (came & EPOLLHUP) != 0;
    for (const auto& [filter, direction, end] :
         {std::tuple(EVFILT_READ, std::uint32_t{EPOLLIN}, over || (came & EPOLLRDHUP) != 0),
          std::tuple(EVFILT_WRITE, std::uint32_t{EPOLLOUT}, over)}) {
      if (!(asked & direction) || !((came & direction) || end)) continue;
      events[told++] = {static_cast<std::uintptr_t>(fd),          filter, end ? EV_EOF : std::uint16_t{0},
                        failed ? kqueue_double::error_of(fd) : 0, 0,      nullptr};
    }
  }
  return told;
}
