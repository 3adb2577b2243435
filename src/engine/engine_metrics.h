// engine_metrics.h: what the engine counts. Names of series are the server's (server/metrics/engine_series.h).
// Units: tokens, seconds.
#pragma once

#include "base/metrics.h"
#include "cache/disk/disk_tier.h"
#include "cache/peers/peer_counters.h"
#include "cache/remote/remote_counters.h"
#include "engine/pictures/picture_counters.h"

namespace espalier {

// Counters, gauges and histograms that the engine writes and the server reads.
struct EngineMetrics {
  static std::vector<double> latency() {
    return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 80};
  }
  static std::vector<double> inter_token() {
    return {0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1};
  }
  static std::vector<double> scheduling_times() {
    return {0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.1};
  }
  static std::vector<double> durations() {
    return {0.01, 0.02,  0.04,  0.08,  0.16,  0.32,   0.64,   1.28, 2.56,
            5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 640};
  }
  static std::vector<double> tokens() { return {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}; }
  static std::vector<double> batch() { return {1, 2, 4, 8, 16, 32, 64, 128, 256}; }

  Counter requests, prompt_tokens, generated_tokens, cached_tokens, queried_tokens, computed_tokens;
  Counter finished_stop, finished_length, finished_abort, finished_error, rejected_queue, rejected_draining;
  Counter preemptions, retracted_tokens, evicted_tokens, steps;
  Counter ahead_rows, ahead_rows_dropped;  // begun before their step was planned; of these, not asked for
  Counter disk_hit_tokens;                 // of cached_tokens, those that were read from disk for the request
  Counter forced_tokens, passes_saved, masks,
      late_masks;  // of constraints (engine/constrain/constrained_text.h, row_mask.h)
  Counter draft_steps, drafted_tokens, accepted_tokens;
  Counter read_tokens, read_extents;  // of the pool, by attention, and in how many pieces they lay
  Counter moved_tokens;               // to lie together again
  Histogram first_token{latency()}, inter_token_latency{inter_token()}, duration{durations()};
  Histogram scheduling{scheduling_times()};  // of a step, beside the models
  Histogram queue{durations()}, prefill{durations()}, decode{durations()}, step{inter_token()};
  Histogram request_prompt_tokens{tokens()}, request_generated_tokens{tokens()}, batch_size{batch()};
  DiskTierCounters disk;
  RemoteTierCounters remote;
  PeerCounters peers;
  PictureCounters pictures;
  Gauge generation_rate;  // tokens per second: a mean over about the last second with work
  Gauge expected_step;    // what the step under way, or the last one, was expected to take; 0: nothing was known yet
};

}  // namespace espalier
