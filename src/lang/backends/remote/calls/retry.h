// retry.h: whether a request is made again, and after which pause.
// Threads: pure functions.
// Source:  exponential back-off with jitter; RFC 9110 section 10.2.3 for Retry-After.
#pragma once

#include <chrono>
#include <optional>

#include "espalier/backends.h"
#include "net/client/http_client.h"

namespace espalier::lang {

// What an answer that is no 200 asks to wait, by Retry-After (seconds or a date) or retry-after-ms; none: nothing said.
std::optional<std::chrono::milliseconds> asked_pause(const net::ClientResponse& response,
                                                     std::chrono::system_clock::time_point now);

// Another try may end otherwise: too many requests, the server's own trouble, a connection that broke or was refused.
bool worth_retrying(const Error& error, int status);

// Before try `made` + 1; none: no more tries. `share` is random in 0..1.
std::optional<std::chrono::milliseconds> pause_before_next(const RetryOptions& options, int made,
                                                           std::optional<std::chrono::milliseconds> asked,
                                                           double share);

}  // namespace espalier::lang
