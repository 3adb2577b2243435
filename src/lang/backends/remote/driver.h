// driver.h: the one thread on which all outgoing calls of a process are made.
//
// It runs a TransferLoop; other threads hand it work through an inbox. It lives while somebody holds it: back ends, and
// the calls under way.
// Order:   work in the order of post(); what is due at a time in the order of these.
// Threads: post(), at(), here(): any. loop(): the driver's own. Work must not block.
// Fails:   shared(): out_of_memory (no thread), internal (no descriptor). Work must not throw.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "net/client/transfer_loop.h"

namespace espalier::lang {

// The network thread of remote back ends, shared by the process.
class Driver {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void()>;

  static Result<std::shared_ptr<Driver>> shared();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void post(Work work);
  void at(Clock::time_point due, Work work);
  bool here() const { return std::this_thread::get_id() == thread_.get_id(); }
  net::TransferLoop& loop();

 private:
  struct Core;
  Driver(std::shared_ptr<Core> core, std::thread thread);
  std::shared_ptr<Core> core_;  // the thread's as well
  std::thread thread_;
};

}  // namespace espalier::lang
