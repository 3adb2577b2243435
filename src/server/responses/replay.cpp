#include "server/responses/replay.h"

namespace espalier::server {

void Replay::begin(Service& service, const net::HttpRequest& request, net::Responder responder,
                   const std::shared_ptr<EventLog>& log, std::size_t from) {
  auto replay = std::make_shared<Replay>(service, log, from);
  service.metrics.answered(request.route, "", 200);
  const auto wake = [weak = std::weak_ptr(replay), &service] {
    if (auto self = weak.lock()) service.light.notify(*self);
  };
  replay->out_.open(std::move(responder), {{"x-request-id", request.id}}, Framing::events, service.options.ping_after,
                    [weak = std::weak_ptr(replay), wake] {
                      if (auto self = weak.lock()) self->out_.resume();
                      wake();
                    });
  service.light.add(replay);
  log->listen(wake);
}

bool Replay::advance() {
  if (out_.closed()) return false;
  if (cancelled_) {
    out_.finish_and_close();
    return false;
  }
  if (out_.paused()) return true;
  const bool ended = log_->ended();  // asked before the rest is read
  next_ = log_->read(next_, out_.text);
  if (!out_.text.empty() && !out_.flush()) return !out_.closed();
  if (!ended) return true;
  out_.finish();
  return false;
}

void Replay::failed(const char*) {
  out_.finish_and_close();
}

void Replay::cancel(Error) {
  cancelled_ = true;
  service_.light.notify(*this);
}

}  // namespace espalier::server
