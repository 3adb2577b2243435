// local_service.h: what all states of a local back end share: the engine, and the thread that carries its results.
//
// Constraints that take long to compile are compiled on a thread of their own, so that neither a program nor another
// call waits for them. Calls that the engine's queue has no room for wait in a line: the first of it tries again when
// another call has ended, and a few times a second, as others than programs may use the engine.
// A lane is what the calls of one back end have in common: how the engine treats them, and what they have cost.
// Order:   the service outlives lanes, contexts and calls, or is stopped before.
// Threads: any; the service ends on none of its own.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/side_pool.h"
#include "engine/stream/courier.h"
#include "espalier/backend.h"
#include "espalier/engine.h"
#include "lang/backends/local/output_lengths.h"
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
  ~LocalService() { stop(); }
  void stop();  // nothing is told after it; what runs is cancelled as soon as its call is dropped

  std::shared_ptr<Engine> engine;
  SidePool compilers{{"lang-compile", 1, 1u << 20, true}};

  void wait_for_room(std::shared_ptr<LocalCall> call);
  void wait_no_more(const LocalCall& call);
  bool somebody_waits() const;
  bool is_first(const LocalCall& call) const;  // of those that wait
  void room();                                 // the first is rung

 private:
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<LocalCall>> waiting_;

 public:
  Courier courier{"lang"};
  std::shared_ptr<Bell> bell = std::make_shared<Bell>(courier);
};

struct LocalLane {
  LocalLane(LocalService& with, RequestFields treatment) : service(with), like(std::move(treatment)) {}
  RequestFields fields() {  // of its next request
    RequestFields next = like;
    if (!like.id.empty()) next.id += "_" + std::to_string(requests++);
    return next;
  }

  LocalService& service;
  const RequestFields like;  // without prompt and sampling; an id is where the ids of its requests begin
  std::atomic<std::uint64_t> requests{0};
  Tally tally;
  std::atomic<std::int64_t> cached_tokens{0};
  OutputLengths lengths;
};

}  // namespace espalier::lang
