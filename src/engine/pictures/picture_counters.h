// picture_counters.h: what the engine counts of pictures. Threads: any may read.
#pragma once

#include "base/metrics.h"

namespace espalier {

// Counters of pictures; any thread may read them.
struct PictureCounters {
  Counter pictures, image_tokens, cached_image_tokens;  // of requests; found in the tree
  Counter computed, failed;                             // features, by the tower
  Counter tower_microseconds;
  Gauge kept_bytes, waiting;  // features on the shelf; pictures that wait for the tower
};

}  // namespace espalier
