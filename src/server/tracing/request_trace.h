// request_trace.h: one answered request as spans: a server span with children for waiting, reading the prompt, generating,
// and each call of a tool in the answer.
//
// Attributes have the names of OpenTelemetry's conventions for generative AI (semantic conventions 1.37, still in
// development) and for HTTP; what those have no name for begins with "espalier.". No prompt, text or key is in any.
// Units:   seconds; tokens.
// Threads: pure functions. Fails: never.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "net/http/trace_context.h"
#include "server/delivery/reply.h"
#include "server/tracing/trace_config.h"

namespace espalier::server {

// What is known of a request once it was answered.
struct RequestTrace {
  net::TraceContext context;
  std::string id, route, model;
  std::string_view operation;  // "chat", "text_completion", "embeddings"
  int status = 200;
  std::string finish_reason;
  ReplySummary summary;
  std::chrono::system_clock::time_point received, submitted, ended;
};

// gen_ai.operation.name of a route of ours.
std::string_view operation_of(std::string_view route);

// The body of a POST to a collector.
std::string otlp_json(const TraceConfig& config, std::span<const RequestTrace> traces);

}  // namespace espalier::server
