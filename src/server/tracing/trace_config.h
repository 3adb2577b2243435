// trace_config.h: where traces go and which of them, by the variables that OpenTelemetry fixed.
//
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT with /v1/traces behind it; without either, and with
// OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none, nothing is traced. OTEL_EXPORTER_OTLP_HEADERS and _TIMEOUT (and
// their _TRACES_ forms), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER(_ARG).
// Threads: a value. Fails: read: bad_request naming the variable.
// Source:  OpenTelemetry's environment variable specification; OTLP/HTTP with JSON bodies.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "net/http/http_types.h"
#include "net/http/trace_context.h"

namespace espalier::server {

// How a tracer is set up.
struct TraceConfig {
  std::string url;       // of the collector, path included
  net::Headers headers;  // keys of the collector, perhaps: never logged
  std::chrono::milliseconds timeout{10'000};
  std::vector<std::pair<std::string, std::string>> resource;  // service.name among them
  bool parent_based = true;                                   // a caller's decision counts
  double ratio = 1;                                           // of the traces that begin here

  bool samples(const net::TraceContext& context) const;

  // `variable`: what the environment says, "" for nothing. None: nothing is to be traced.
  static Result<std::optional<TraceConfig>> read(const std::function<std::string(const char*)>& variable);
  static Result<std::optional<TraceConfig>> from_environment();
};

}  // namespace espalier::server
