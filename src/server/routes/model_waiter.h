// model_waiter.h: a call that waits for its model to be loaded, without a thread of its own.
//
// It ends with the model or with what went wrong: the load, the call's deadline, the end of the server. A client that
// left is told nothing.
// Threads: begin(): any; `then` and `closed`: the notifier's. Fails: begin(): as ModelSet::wait_for().
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "server/service.h"

namespace espalier::server {

// The Completion of one call that waits.
class ModelWaiter final : public Completion, public std::enable_shared_from_this<ModelWaiter> {
 public:
  // False: it cannot be taken just now, and is offered again. Called until it is true.
  using Then = std::function<bool(const ModelWait::Outcome&)>;

  struct Caller {
    std::function<bool()> closed;  // the client left
    Time deadline = Time::max();
    Then then;
  };
  static Result<> begin(Service& service, int place, Caller caller);

  ModelWaiter(Service& service, Caller caller) : service_(service), caller_(std::move(caller)) {}
  bool advance() override;
  void tick(Time) override { service_.heavy.notify(*this); }
  void failed(const char* why) override;
  void cancel(Error why) override;

 private:
  void look();  // for an outcome

  Service& service_;
  Caller caller_;
  std::shared_ptr<ModelWait> wait_;
  std::optional<ModelWait::Outcome> outcome_;  // the notifier's
  std::mutex mutex_;
  std::optional<Error> cancelled_;
};

}  // namespace espalier::server
