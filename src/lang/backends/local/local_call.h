// local_call.h: a request of the engine on behalf of a program's state, from submission to its result.
//
// The notifier's thread carries it: events of the streams become pieces and at last the result. A call that the
// engine's queue has no room for waits in the service's line.
// Order:   begin() once; then the notifier. drop() may come at any time, before begin() too: nothing is told after it.
// Threads: begin(), drop(): any. The rest: the notifier's.
// Fails:   as the engine's error, told like a result.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "engine/stream/completion_notifier.h"
#include "engine/stream/text_stream.h"
#include "espalier/backend.h"
#include "lang/backends/local/local_service.h"

namespace espalier::lang {

// The common half of LocalGen and LocalSelect: submits requests, reads their streams, ends once.
class LocalCall : public Completion, public std::enable_shared_from_this<LocalCall> {
 public:
  explicit LocalCall(std::shared_ptr<LocalCallGroup> group) : group_(std::move(group)), service_(group_->service) {}

  // Without requests it ends with `refusal`.
  void begin(Result<std::vector<Request>> requests);
  void drop();

  bool advance() final;
  void tick(Time now) final;
  void failed(const char* why) final;
  void cancel(Error why) final;

 protected:
  virtual void add(std::size_t request, TextEvent event) = 0;
  virtual void settle() {}  // nothing more is known now
  // All requests have ended; what is asked next. None: nothing is.
  virtual Result<std::vector<Request>> next() { return std::vector<Request>(); }
  virtual void end(Result<> result) = 0;  // nothing is asked any more, or a request failed
  LocalCallGroup& group() const { return *group_; }
  LocalService& service() const { return service_; }

 private:
  Result<bool> submit();  // false: there is no room now
  bool try_again();
  bool go_on();
  void wait_for_room();
  bool finish(Result<> result);

  const std::shared_ptr<LocalCallGroup> group_;
  LocalService& service_;
  std::vector<Request> requests_;
  std::vector<TextStream> streams_;
  std::optional<Error> refusal_;
  bool waits_ = false;  // in the service's line
  std::atomic<bool> dropped_{false};
};

// What a state holds of a call: dropping it cancels.
class LocalCallHandle final : public Call {
 public:
  explicit LocalCallHandle(std::shared_ptr<LocalCall> call) : call_(std::move(call)) {}
  ~LocalCallHandle() override { call_->drop(); }

 private:
  std::shared_ptr<LocalCall> call_;
};

}  // namespace espalier::lang
