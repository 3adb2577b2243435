// room_pulls.h: requests whose prompts other servers compute: where their blocks are asked for, and for how long.
//
// What is to come becomes a file of the disk tier's catalogue for as long as the request waits, so that planning, loading and
// placing are those of any prefix (disk_prefixes.h).
// The address of the other server comes with the request. Without a secret that both share, it must be one that nobody has on
// the internet: else whoever may ask could have wrong keys and values put into the cache of all.
// Units:   tokens. Threads: the engine thread. Fails: never: what does not come is computed here.
// Order:   the disk tier outlives it.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "cache/disk/disk_tier.h"
#include "cache/peers/room_blocks.h"
#include "cache/tree/radix_tree.h"
#include "espalier/handoff.h"

namespace espalier {

// Whom a server is for those it pulls from, and how long it waits for them.
struct RoomPullsOptions {
  PeerIdentity us;
  AddressFilter allowed;
  int port = 8998;       // of a handoff that names none
  double seconds = 300;  // for all of a prompt's blocks
};

// The open pulls, each of one request.
class RoomPulls {
 public:
  RoomPulls(RoomPullsOptions options, DiskTier& disk, PeerCounters& counters)
      : options_(std::move(options)), disk_(disk), counters_(counters) {}
  ~RoomPulls() { stop(); }

  // Asks for what lies behind the first `held` tokens of the key, up to `limit`. False: nothing is to be asked for.
  bool ask(std::uint64_t owner, const Handoff& handoff, const CacheKey& key, int held, int limit);
  void forget(std::uint64_t owner);  // it was admitted, or left
  void clear();                      // of all
  void stop();                       // nobody waits any more

 private:
  struct Pull {
    std::uint64_t owner = 0;
    FileId file = 0;
    std::shared_ptr<RoomBlocks> blocks;
  };
  void drop(const Pull& pull);

  const RoomPullsOptions options_;
  DiskTier& disk_;
  PeerCounters& counters_;
  const std::shared_ptr<LogPace> pace_ = std::make_shared<LogPace>();  // of what does not come
  std::vector<Pull> pulls_;
};

}  // namespace espalier
