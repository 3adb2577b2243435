// pull.h: fetching a model because a client of /api/pull asks for it.
//
// The server fetches nothing by itself: a model that it serves is there already, and any other is refused with the way
// to get it. What fetches models plugs in here: it tells each step, and returns once the model is there.
// Threads: any; `tell` runs on the caller's thread. Fails: not_found for a model that is not served, before any step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/routes/handler.h"

namespace espalier::server {

// One step on the way, with bytes where some are counted.
struct PullProgress {
  std::string status, digest;
  std::int64_t total = 0, completed = 0;
};
using PullListener = std::function<void(const PullProgress&)>;

Result<> pull_model(const Call& call, const std::string& name, const PullListener& tell);

}  // namespace espalier::server
