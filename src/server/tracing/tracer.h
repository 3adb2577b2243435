// tracer.h: takes what is told of answered requests and sends it to a collector, on a thread of its own.
//
// Whoever records waits for nothing: a full queue drops the request's trace and counts it. A collector that does not
// answer is tried again a few times, and then what it should have got is dropped.
// Order:   make, record*, stop. Threads: record(), counters: any. stop(): one.
// Fails:   make: no_thread(). A collector that cannot be reached is logged once a minute.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "net/client/http_client.h"
#include "net/http/http_types.h"
#include "server/tracing/request_trace.h"
#include "server/tracing/trace_config.h"

namespace espalier::server {

// The exporter of spans.
class Tracer {
 public:
  static Result<std::unique_ptr<Tracer>> make(TraceConfig config);
  ~Tracer() { stop(std::chrono::milliseconds(0)); }

  const TraceConfig& config() const { return config_; }
  // `submitted`: when the engine got the request. A request without a trace, or whose trace nobody wants, is not kept.
  void record(const net::HttpRequest& request, const std::string& model, int status, std::string_view finish_reason,
              const ReplySummary& summary, std::chrono::steady_clock::time_point submitted);
  // Sends what there is, within the limit, and ends.
  void stop(std::chrono::milliseconds limit);

  Counter sent, dropped;  // requests

 private:
  explicit Tracer(TraceConfig config) : config_(std::move(config)) {}
  void run(const std::stop_token& stop);
  void send(const std::vector<RequestTrace>& traces, const std::stop_token& stop);
  void warn(std::string_view why);

  const TraceConfig config_;
  net::HttpClient client_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<RequestTrace> waiting_;
  bool sending_ = false, hurry_ = false;
  std::chrono::steady_clock::time_point warned_{};
  std::jthread thread_;
};

}  // namespace espalier::server
