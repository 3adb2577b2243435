// remote_cache.h: with which server an engine shares its prefixes, and as whom: what EngineOptions say of it, read and checked.
//
// Threads: before the engine thread starts. Fails: bad_request naming the flag: an address that is none, a file for a password or a
// secret that cannot be read or is empty, a policy that there is not; unsupported: TLS.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/remote/redis_address.h"
#include "cache/remote/remote_tier.h"
#include "espalier/engine.h"

namespace espalier {

// The server, and what is said to all engines of a fleet alike.
struct RemoteWish {
  RedisAddress address;
  RemotePolicy policy = RemotePolicy::write_through;
  std::string secret;
  bool weighs = true;  // reads what pays; else whatever there is
};

// Nothing: prefixes are not shared.
Result<std::optional<RemoteWish>> remote_wish(const EngineOptions& options);

// What of an engine under construction a remote tier depends on.
struct RemoteParts {
  std::string key;  // what must be equal for stored bytes to mean anything here
  std::size_t stride = 0;
  std::function<void()> wake;
  IoBuffers::Pin pin;
};
std::unique_ptr<RemoteTier> open_remote_tier(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                                             RemoteTierCounters& counters);

}  // namespace espalier
