// server_metrics.h: what the server counts beside the engine: answers by status, ends by reason, refusals.
// Labels are bounded: routes are patterns of ours, never what a client sent.
// Threads: any. Fails: never.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "base/metrics.h"

namespace espalier::server {

// The labels under which an answered request is counted.
struct RequestLabels {
  std::string model;  // that answered; empty: none did
  std::string endpoint, finish_reason;
  int code = 200;
  auto operator<=>(const RequestLabels&) const = default;
};

// The server's own counters, by bounded labels.
class ServerMetrics {
 public:
  void answered(std::string_view endpoint, std::string_view finish_reason, int code, std::string_view model = {});
  void refused(std::string_view reason);  // one of our own words: "queue_full", "loading", "unauthorized", ...

  std::map<RequestLabels, std::uint64_t> requests() const;
  std::map<std::string, std::uint64_t> refusals() const;

  Counter aborted;    // clients that left, and /abort_request
  Counter deadlines;  // requests ended by their deadline
  Counter streamed, whole;
  // Of tokens that are streamed: from the end of the step that sampled them until the kernel has their event. Tokens that
  // go out together count as the oldest of them.
  Histogram token_delivery{{0.00005, 0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01,
                            0.02, 0.05, 0.1, 0.5, 1}};

 private:
  mutable std::mutex mutex_;
  std::map<RequestLabels, std::uint64_t> requests_;
  std::map<std::string, std::uint64_t> refusals_;
};

}  // namespace espalier::server
