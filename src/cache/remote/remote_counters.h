// remote_counters.h: what a remote tier (remote_tier.h) did.
// Units: tokens, bytes, microseconds. Threads: any. Fails: never.
#pragma once

#include "base/metrics.h"

namespace espalier {

// Counters and gauges of one remote tier.
struct RemoteTierCounters {
  Counter asks, skipped_asks, hits, misses, found_tokens;
  Counter read_tokens, read_bytes, read_microseconds, ask_microseconds;
  Counter written_tokens, written_bytes, known_tokens;
  Counter dropped_tokens_busy, dropped_tokens_down, dropped_tokens_full, dropped_tokens_gone;
  Counter damaged_blocks, errors;
  Gauge state, waiting_tokens, read_bytes_per_second, ask_seconds, break_even_tokens;
};

}  // namespace espalier
