// replay.h: the events of a response for a reader who comes later, also while more of them come.
// Threads: begin(): any; afterwards the notifier's. Fails: a reader who leaves is forgotten; nothing else depends on him.
#pragma once

#include <memory>

#include "net/http/http_types.h"
#include "net/server/responder.h"
#include "server/delivery/answer_stream.h"
#include "server/responses/event_log.h"
#include "server/service.h"

namespace espalier::server {

// One reader of an EventLog.
class Replay final : public Completion, public std::enable_shared_from_this<Replay> {
 public:
  // From event number `from` on.
  static void begin(Service& service, const net::HttpRequest& request, net::Responder responder,
                    const std::shared_ptr<EventLog>& log, std::size_t from);
  Replay(Service& service, std::shared_ptr<EventLog> log, std::size_t from)
      : service_(service), log_(std::move(log)), next_(from) {}

  bool advance() override;
  void failed(const char* why) override;
  void cancel(Error why) override;

 private:
  Service& service_;
  const std::shared_ptr<EventLog> log_;
  std::size_t next_;
  AnswerStream out_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace espalier::server
