// peer_counters.h: what went between servers straight out of one's memory into the other's (cache/peers/).
// Units: tokens, bytes, microseconds. Threads: any. Fails: never.
#pragma once

#include "base/metrics.h"

namespace espalier {

// Counters and gauges of both sides.
struct PeerCounters {
  // Given to others.
  Counter wishes, given_tokens, given_bytes, refused;
  Gauge asking;  // connections whose wish is open
  // Pulled for requests whose prompt another server computed.
  Counter rooms, pulled_tokens, pulled_bytes, pulled_microseconds;
  Counter rooms_unneeded;  // the cache here had it
  Counter rooms_failed;    // not all came: the rest was computed here
};

}  // namespace espalier
