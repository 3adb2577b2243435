// pool_usage.h: what running requests use of the token pool, as every dialect of /metrics tells it.
// Units: tokens. Threads: any. Fails: never.
#pragma once

#include "espalier/engine.h"

namespace espalier::server {

inline double used_tokens(const EngineStatus& status) {
  return status.pool_tokens - status.free_tokens - status.cached_tokens;
}

// 0 to 1.
inline double pool_usage(const EngineStatus& status) {
  return status.pool_tokens > 0 ? used_tokens(status) / status.pool_tokens : 0;
}

}  // namespace espalier::server
