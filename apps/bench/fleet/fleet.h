// fleet.h: several simulated servers behind a router, perhaps with a store of prefixes that they share, perhaps split into
// servers that compute prompts and servers that answer.
//
// A call is routed when it is sent. With a remote tier, what the store holds of its prompt and the server does not is read
// first when that is quicker than computing it; others compute meanwhile. What a call computed is written when it ends.
// Split: the call's prompt is computed by one of the first servers, whose whole blocks are streamed while it computes;
// when the last is there, another server takes them, computes the rest of the prompt (up to 15 tokens) and answers.
// Order:   (send | run)*, send() also from `on_end`; catch_up() before anything is read of servers or of what watches their
//          steps, for these are taken late (simulated_server.h). The same calls give the same times, bit for bit.
// Units:   nanoseconds of simulated time since 1 s; FleetEnd in seconds since the call was sent; tokens.
// Threads: one. Fails: never.
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "bench/fleet/remote_tier.h"
#include "bench/fleet/routers/router.h"
#include "bench/fleet/simulated_server.h"

namespace espalier::bench {

// How a call ended.
struct FleetEnd {
  bool ok = false;
  std::string error;
  std::size_t tag = 0;
  int server = 0;
  std::int64_t sent = 0;
  int prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int brought_tokens = 0;  // from the remote tier, or streamed from a server of prompts
  double queued = 0, first_token = 0, finished = 0;
};

struct FleetTraffic {
  double ranks = 0, remote_read = 0, remote_written = 0, streamed = 0;  // bytes
};

class Fleet {
 public:
  struct Settings {
    SimulatedServer::Settings server;
    int replicas = 1;        // with a split, those that answer
    int prompt_servers = 0;  // above 0: a split
    RouterOptions router;
    RouterPolicy answers_by = RouterPolicy::power_of_two;  // which of the servers that answer, in a split
    double token_bytes = 0;                                // keys and values of a token
    std::optional<RemoteTier::Settings> remote;
    Link peers;                 // between servers, each its own
    bool step_by_step = false;  // takes every step when it begins; slower, the same times
  };
  using OnEnd = std::function<void(const FleetEnd&)>;

  Fleet(const Settings& settings, OnEnd on_end);

  std::int64_t now() const { return now_; }
  // `tag`: what on_end() says again. `client`: whose it is, for routers that look at that.
  void send(std::shared_ptr<PlannedRequest> request, std::uint64_t client, std::size_t tag);
  // Before anything is sent: what was said before the start is where the router would have sent it.
  void remember(const PlannedRequest& request, std::uint64_t client);
  void forget_loads() { std::ranges::fill(loads_, 0); }  // that remember() counted
  // To the next time at which a call or a transfer may end, or to `until`; time always goes on.
  void run(std::int64_t until);
  void catch_up();  // all steps that have begun by now

  StepWatch& watch() { return *watch_; }
  FleetTraffic traffic() const;
  std::size_t in_flight() const { return pending_.size(); }
  int servers() const { return static_cast<int>(servers_.size()); }
  const SimulatedServer& server(int number) const { return *servers_[static_cast<std::size_t>(number)]; }
  std::span<const std::int64_t> calls_of() const { return calls_of_; }  // that each server was sent

 private:
  struct Pending {
    std::shared_ptr<PlannedRequest> request;
    std::shared_ptr<StreamChannel> channel, prompt_channel;
    std::size_t tag = 0;
    int server = 0;
    int prompt_server = -1;  // that computes its prompt now
    std::int64_t sent = 0, added = 0;
    int brought_to = 0, brought = 0, open_choices = 1;
    FleetEnd end;
  };
  enum class What : std::uint8_t { server, arrival };
  struct Event {
    std::int64_t time, begun;  // begun: of two at one time the one that began first comes first
    std::uint64_t order;
    What what;
    std::size_t which;  // server, or call
    bool operator>(const Event& other) const {
      return std::tie(time, begun, order) > std::tie(other.time, other.begun, other.order);
    }
  };
  struct Awaited {  // when something of a server may end
    std::int64_t time = 0;
    std::uint64_t order = 0;  // of its event; 0: none is awaited
  };

  void add(Pending& call);
  void give(int server, const SimulatedServer::Call& call, std::shared_ptr<StreamChannel> channel);
  void begin_later(int server);
  void begin_steps();
  void catch_up(int server);
  void await(int server, std::int64_t time);
  void await_end(int server);
  void look_at(int server);
  void end_step(int server);
  void read_events(Pending& call);
  void finish(std::size_t number);
  void send_to_prompt_server(Pending& call);
  void stream(Pending& call);
  bool read_remotely(Pending& call);
  void arrive_later(std::size_t number, double seconds);
  int routed(Router& router, const Request& request, std::uint64_t client, int first, int count);
  double seconds() const { return 1e-9 * static_cast<double>(now_); }

  const Settings settings_;
  const OnEnd on_end_;
  std::unique_ptr<StepWatch> watch_;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::unique_ptr<Router> router_, answer_router_;
  std::unique_ptr<RemoteTier> remote_;
  std::vector<SharedLink> streams_;  // of each server of prompts
  std::int64_t now_ = SimulatedClock().nanoseconds();
  std::uint64_t events_made_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> loads_;        // calls of each server that have not ended
  std::vector<Awaited> awaited_;  // of each server: when something of it may end
  std::vector<int> to_begin_;     // servers that may have something to compute
  std::vector<bool> begins_;      // of these, by server
  std::vector<std::int64_t> calls_of_;
  std::size_t last_call_ = 0;
  std::vector<StreamEvent> events_read_;  // its memory is used again
  boost::unordered_flat_map<std::size_t, std::unique_ptr<Pending>> pending_;
};

}  // namespace espalier::bench
