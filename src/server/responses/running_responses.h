// running_responses.h: responses that are made without a client that waits for them ("background": true).
// Threads: any. Fails: never.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "net/server/in_process_call.h"
#include "server/responses/event_log.h"

namespace espalier::server {

// Those that have not ended, by their ids. What stands in for a client is kept here: to drop it ends the work.
class RunningResponses {
 public:
  // `log`: of its events, null when it tells none.
  void add(const std::string& id, net::InProcessCall call, std::shared_ptr<EventLog> log);
  bool contains(std::string_view id);
  bool empty();
  std::shared_ptr<EventLog> log_of(std::string_view id);
  // Its answer as far as it is there: an early one says why it cannot be made.
  struct Refusal {
    int status = 0;
    std::string body;
  };
  std::optional<Refusal> refusal_of(std::string_view id);
  void drop(std::string_view id);  // ends the work
  void stop();                     // of all

 private:
  struct Run {
    net::InProcessCall call;
    std::shared_ptr<EventLog> log;
    std::string answer;
  };
  using Runs = std::map<std::string, Run, std::less<>>;
  void forget_ended();

  std::mutex mutex_;
  Runs runs_;
};

}  // namespace espalier::server
