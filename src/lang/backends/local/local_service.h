// local_service.h: what all states of a local back end share: the engine, and the thread that carries its results.
//
// Constraints that take long to compile are compiled on a thread of their own, so that neither a program nor another
// call waits for them.
// Order:   it outlives contexts and calls, which states drop before their back end.
// Threads: any; it ends on none of its own.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "base/side_pool.h"
#include "engine/courier.h"
#include "espalier/backend.h"
#include "espalier/engine.h"
#include "lang/backends/tally.h"

namespace espalier::lang {

class LocalCall;

// Rings the courier for the engine's streams, which may outlive both.
class Bell {
 public:
  explicit Bell(Courier& courier) : courier_(&courier) {}
  void ring(Errand& errand) {
    const std::lock_guard lock(mutex_);
    if (courier_ != nullptr) courier_->ring(errand);
  }
  void silence() {
    const std::lock_guard lock(mutex_);
    courier_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Courier* courier_;
};

struct LocalService {
  explicit LocalService(std::shared_ptr<Engine> with) : engine(std::move(with)) {}
  ~LocalService();

  std::shared_ptr<Engine> engine;
  SidePool compilers{{"lang-compile", 1, 1u << 20}};
  Tally tally;

  void wait_for_room(std::shared_ptr<LocalCall> call);
  void room();  // a call has ended: the one that waits longest is rung

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<LocalCall>> waiting_;

 public:
  Courier courier{"lang"};
  std::shared_ptr<Bell> bell = std::make_shared<Bell>(courier);
};

}  // namespace espalier::lang
