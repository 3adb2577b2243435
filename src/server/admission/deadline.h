// deadline.h: when a request has to be answered: by --request-timeout, or earlier where the client says x-deadline-ms.
// Units: seconds, steady clock. Threads: pure. Fails: never; a header that is no number counts as none.
#pragma once

#include "engine/stream/completion_notifier.h"
#include "net/http/http_types.h"

namespace espalier::server {

// Counted from the arrival of the head. `limit_seconds` 0: none.
Completion::Time deadline_of(const net::HttpRequest& request, double limit_seconds);

}  // namespace espalier::server
