// process_series.h: what /metrics says of the HTTP server's connections, of traces that were sent, and of the process,
// under the names that Prometheus' client libraries use for it.
// Threads: one. Fails: never.
#pragma once

#include "net/server/http_server.h"
#include "server/metrics/metrics_text.h"
#include "server/tracing/tracer.h"

namespace espalier::server {

void write_net(MetricsText& text, const net::ServerStats& stats);
void write_traces(MetricsText& text, const Tracer& tracer);
void write_process(MetricsText& text, double started_at);  // seconds since 1970

}  // namespace espalier::server
