// local_service.h: what all states of a local back end share: the engine, and the thread that carries its results.
//
// Constraints that take long to compile are compiled on a thread of their own, so that neither a program nor another
// call waits for them. Calls that the engine's queue has no room for wait in a line: the first of it tries again when
// another call has ended, and a few times a second, as others than programs may use the engine.
// A group is what the calls of one back end have in common: how the engine treats them, and what they have cost.
// Order:   the service outlives groups, contexts and calls, or is stopped before.
// Threads: any; the service ends on none of its own.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/threads/background_pool.h"
#include "engine/stream/completion_notifier.h"
#include "espalier/backend.h"
#include "espalier/engine.h"
#include "lang/backends/call_counters.h"
#include "lang/backends/local/output_lengths.h"

namespace espalier::lang {

class LocalCall;
class LocalPictures;

// Notifies for the engine's streams, which may outlive both.
class NotifierHandle {
 public:
  explicit NotifierHandle(CompletionNotifier& notifier) : notifier_(&notifier) {}
  void notify(Completion& completion) {
    const std::lock_guard lock(mutex_);
    if (notifier_ != nullptr) notifier_->notify(completion);
  }
  void detach() {
    const std::lock_guard lock(mutex_);
    notifier_ = nullptr;
  }

 private:
  std::mutex mutex_;
  CompletionNotifier* notifier_;
};

// The engine, its notifier thread and the line of calls that wait for room in its queue.
struct LocalService {
  explicit LocalService(std::shared_ptr<Engine> with) : engine(std::move(with)) {}
  ~LocalService() { stop(); }
  void stop();  // nothing is told after it; what runs is cancelled as soon as its call is dropped

  std::shared_ptr<Engine> engine;
  std::shared_ptr<LocalPictures> pictures;  // null: the model reads none. Set before anybody calls
  BackgroundPool compilers{{"lang-compile", 1, 1u << 20, true}};

  void wait_for_room(std::shared_ptr<LocalCall> call);
  void wait_no_more(const LocalCall& call);
  bool somebody_waits() const;
  bool is_first(const LocalCall& call) const;  // of those that wait
  void room();                                 // the first is notified

 private:
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<LocalCall>> waiting_;

 public:
  CompletionNotifier notifier{"lang"};
  std::shared_ptr<NotifierHandle> notifier_handle = std::make_shared<NotifierHandle>(notifier);
};

// The request fields and the counters that all calls of one back end share.
struct LocalCallGroup {
  LocalCallGroup(LocalService& with, RequestFields treatment) : service(with), like(std::move(treatment)) {}
  RequestFields fields() {  // of its next request
    RequestFields next = like;
    if (!like.id.empty()) next.id += "_" + std::to_string(requests++);
    return next;
  }

  LocalService& service;
  const RequestFields like;  // without prompt and sampling; an id is where the ids of its requests begin
  std::atomic<std::uint64_t> requests{0};
  CallCounters counters;
  std::atomic<std::int64_t> cached_tokens{0};
  OutputLengths lengths;
};

}  // namespace espalier::lang
