// cache_event_config.h: --kv-events-config, as SGLang and vLLM take it.
// Threads: a value. Fails: bad_request naming the member.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::server {

// Where cache events go, and how many are kept for those who missed some.
struct CacheEventConfig {
  std::string endpoint = "tcp://*:5557";  // PUB: bound where it has a *, ::, or is ipc; else connected
  std::string replay_endpoint;            // ROUTER, bound; empty: none
  std::string topic;
  int buffer_steps = 10'000;     // batches that are kept for replay
  int hwm = 100'000;             // batches that wait for a slow subscriber; more are lost to it
  int max_queue_size = 100'000;  // batches that wait to be sent; more are lost, and logged
  bool named_fields = false;     // "encoding": "map": events as maps, which vLLM's newest types read; else as arrays
};

// Nothing: "publisher" is "null", or nothing was given.
Result<std::optional<CacheEventConfig>> parse_cache_event_config(std::string_view json);

}  // namespace espalier::server
