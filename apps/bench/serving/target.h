// target.h: a server to be measured: where it is, how it is spoken to, and what it says about itself.
// Units:   seconds.
// Threads: one; calls block.
// Fails:   network, timeout, or what the server refused.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/load/http_transport.h"

namespace espalier::bench {

struct Target {
  std::string name;  // for tables: the backend, or the user's own name
  Server server;
  std::string model;  // as /v1 routes want it
  std::optional<int> vocabulary;
  bool incremental_events = false;
  Json info;  // /get_server_info, null where there is none
};

struct TargetQuestions {
  std::string model;           // not asked for when given
  double ready_timeout_s = 0;  // how long to wait until it answers at all; 0: one try
  std::function<bool()> interrupted;
};

// Waits for the server and asks it what it serves. Without a model in the answer `model` stays as given.
Result<Target> ask(Server server, const TargetQuestions& questions);

// Any 200 on a health or model route.
bool answers(const Server& server);

Result<> flush_cache(const Server& server);

}  // namespace espalier::bench
