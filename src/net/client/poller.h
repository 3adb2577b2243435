// poller.h: which of many sockets are ready, at the cost of those that are (private to net/client).
//
// What is ready is told as often as it is asked, until it was read or written. A socket that was closed is not watched
// any more; a new one with its number has to be watched anew.
// Units:   nanoseconds.
// Threads: one.
// Fails:   open() when there is no descriptor left; watch() returns false when the system refuses.
// Source:  epoll(7) on Linux, kqueue(2) on macOS.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier::net {

// A set of watched sockets, and those of them that are ready now.
class Poller {
 public:
  struct Interest {
    bool readable = false, writable = false;
  };
  struct Ready {
    int fd = -1;
    bool readable = false, writable = false;
    bool failed = false;  // an error or the end of both directions, watched for or not
  };

  static Result<Poller> open();

  // From now on for this and nothing else. `known`: it is watched already, as far as the caller knows (a hint).
  bool watch(int fd, Interest interest, bool known);
  void forget(int fd);  // watched or not

  // Returns as soon as some are ready, or after `longest`. The two directions of one socket may come apart.
  std::span<const Ready> wait(std::chrono::nanoseconds longest);  // until the next call

 private:
  explicit Poller(UniqueFd queue) : queue_(std::move(queue)) {}

  UniqueFd queue_;
  std::vector<Ready> ready_;
};

}  // namespace espalier::net
