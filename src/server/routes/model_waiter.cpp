#include "server/routes/model_waiter.h"

namespace espalier::server {

Result<> ModelWaiter::begin(Service& service, int place, Caller caller) {
  auto waiter = std::make_shared<ModelWaiter>(service, std::move(caller));
  ESP_TRY(waiter->wait_, service.models.wait_for(place, [&service, weak = std::weak_ptr(waiter)] {
    if (const auto there = weak.lock()) service.heavy.notify(*there);
  }));
  service.heavy.add(std::move(waiter));
  return success();
}

void ModelWaiter::look() {
  if (outcome_) return;
  outcome_ = wait_->take();
  const std::scoped_lock lock(mutex_);
  if (!outcome_ && cancelled_) outcome_ = *cancelled_;
  if (std::chrono::steady_clock::now() < caller_.deadline) return;
  service_.metrics.deadlines.add();  // with the model in hand or not
  outcome_ = Error{Error::Kind::timeout,
                   "the request did not begin before its deadline: its model was being loaded",
                   {},
                   "deadline_exceeded"};
}

bool ModelWaiter::advance() {
  if (caller_.closed()) {
    service_.metrics.aborted.add();
    return false;
  }
  look();
  return !outcome_ || !caller_.then(*outcome_);
}

void ModelWaiter::failed(const char*) {
  caller_.then(internal_error("the request failed inside the server while it waited for its model"));
}

void ModelWaiter::cancel(Error why) {
  {
    const std::scoped_lock lock(mutex_);
    cancelled_ = std::move(why);
  }
  service_.heavy.notify(*this);
}

}  // namespace espalier::server
