// remote_cache.h: with whom an engine shares its prefixes, and as whom: what EngineOptions say of it, read and checked.
//
// Three ways: a Redis or Valkey server that keeps blocks (cache/remote/), others whose memory is asked (--peers), and prompts that
// one server computes for another (--disaggregation-mode; both cache/peers/).
//
// Threads: before the engine thread starts. Fails: bad_request naming the flag: an address that is none, a file for a password or a
// secret that cannot be read or is empty, a policy or mode that there is not; unsupported: TLS.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/peers/peer_listener.h"
#include "cache/peers/room_pulls.h"
#include "cache/remote/redis_address.h"
#include "cache/remote/remote_tier.h"
#include "espalier/engine.h"

namespace espalier {

// With whom, and what is said to all engines of a fleet alike.
struct RemoteWish {
  std::optional<RedisAddress> address;  // none: no server keeps blocks
  RemotePolicy policy = RemotePolicy::write_through;
  std::string secret;
  bool weighs = true;                 // reads what pays; else whatever there is
  std::vector<HostAndPort> peers;     // whose memory is asked
  std::optional<HostAndPort> listen;  // where others ask for this one's
  bool pulls = false;                 // others compute prompts for it
  bool only_prompts = false;          // it computes prompts for others, and answers nobody

  bool asks() const { return address || !peers.empty(); }
};

bool shares_prefixes(const EngineOptions& options);

// Nothing: prefixes are not shared.
Result<std::optional<RemoteWish>> remote_wish(const EngineOptions& options);

// What of an engine under construction a remote tier depends on.
struct RemoteParts {
  std::string key;  // what must be equal for stored bytes to mean anything here
  std::size_t stride = 0;
  std::function<void()> wake;
  IoBuffers::Pin pin;
};
// Of a wish that asks.
std::unique_ptr<RemoteTier> open_remote_tier(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                                             RemoteTierCounters& counters);

// How blocks go straight between servers.
struct PeerParts {
  std::unique_ptr<PeerListener> listener;  // null: nobody asks here
  int pieces_a_step = 0;                   // given at most, while something runs
  std::optional<RoomPullsOptions> pulls;   // none: no prompt is computed elsewhere
  std::string description;                 // one line for whoever starts the engine
};
Result<PeerParts> open_peers(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                             PeerCounters& counters);

}  // namespace espalier
