// cache_event_publisher.h: sends cache events to whoever routes requests by them, over ZeroMQ.
//
// A batch is three frames on a PUB socket: topic, number (8 bytes, highest first), MessagePack of [time, [events], rank].
// Who missed some asks the ROUTER socket with the number of the first (8 bytes, behind an empty frame), and gets each
// as [number, batch]; the number -1 with an empty batch ends the replay.
//
// Threads: publish(): any, never waits; one thread of its own holds the sockets.
// Fails:   make(): unavailable, naming the endpoint that cannot be bound. Later nothing: who is too slow loses batches,
//          which the numbers show.
// Source:  vLLM's and SGLang's KV events.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "espalier/cache_event.h"
#include "espalier/error.h"
#include "server/cache_events/cache_event_config.h"

namespace espalier::server {

// One batch as MessagePack. `seconds`: since 1970.
std::string pack_cache_events(const std::vector<CacheEvent>& events, double seconds, bool named_fields);

// Publishes batches until it is destroyed.
class CacheEventPublisher {
 public:
  static Result<std::unique_ptr<CacheEventPublisher>> make(CacheEventConfig config);
  ~CacheEventPublisher();

  void publish(std::vector<CacheEvent> events);

 private:
  struct Sockets;
  struct Batch {
    double seconds = 0;
    std::vector<CacheEvent> events;
  };
  CacheEventPublisher(CacheEventConfig config, std::unique_ptr<Sockets> sockets);
  void run();
  void send_waiting();
  void replay();

  const CacheEventConfig config_;
  std::unique_ptr<Sockets> sockets_;
  std::deque<std::pair<std::uint64_t, std::string>> sent_;  // of the thread: the last ones
  std::uint64_t next_ = 0;                                  // likewise
  std::mutex mutex_;
  std::deque<Batch> waiting_;
  std::uint64_t lost_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace espalier::server
