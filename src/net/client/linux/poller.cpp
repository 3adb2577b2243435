#include "net/client/poller.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <ctime>

namespace espalier::net {

Result<Poller> Poller::open() {
  UniqueFd queue(::epoll_create1(EPOLL_CLOEXEC));
  if (!queue) return Error{Error::Kind::out_of_memory, "no file descriptor is left (ulimit -n)", {}, {}};
  return Poller(std::move(queue));
}

bool Poller::watch(int fd, Interest interest, bool known) {
  epoll_event event{};
  event.data.fd = fd;
  event.events = (interest.readable ? EPOLLIN : 0u) | (interest.writable ? EPOLLOUT : 0u);
  if (::epoll_ctl(queue_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return true;
  // A descriptor number that came back: the caller's memory of it and the kernel's may differ.
  return ::epoll_ctl(queue_.get(), known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0;
}

void Poller::forget(int fd) {
  ::epoll_ctl(queue_.get(), EPOLL_CTL_DEL, fd, nullptr);  // fails when it is closed already: gone either way
}

std::span<const Poller::Ready> Poller::wait(std::chrono::nanoseconds longest) {
  const timespec limit{static_cast<time_t>(longest.count() / 1'000'000'000),
                       static_cast<long>(longest.count() % 1'000'000'000)};
  pollfd any{queue_.get(), POLLIN, 0};
  static_cast<void>(::ppoll(&any, 1, &limit, nullptr));  // epoll_wait knows only milliseconds
  std::array<epoll_event, 256> events;
  const int count = ::epoll_wait(queue_.get(), events.data(), static_cast<int>(events.size()), 0);
  ready_.clear();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    ready_.push_back({event.data.fd, (event.events & EPOLLIN) != 0, (event.events & EPOLLOUT) != 0,
                      (event.events & (EPOLLERR | EPOLLHUP)) != 0});
  }
  return ready_;
}

}  // namespace espalier::net
