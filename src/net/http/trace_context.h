// trace_context.h: which trace a request belongs to: `traceparent` as it came and as it goes out.
// Threads: values. Fails: never; a header that is malformed begins a trace of its own, as the source wants it.
// Source:  W3C Trace Context (level 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::net {

// A request's place in a trace. Ids in lower-case hexadecimal digits.
struct TraceContext {
  std::string trace_id;   // 32 digits
  std::string parent_id;  // 16, of the caller's span; "" where the trace begins here
  std::string span_id;    // 16, of the server's span
  std::string state;      // the caller's tracestate, as it came
  bool sampled = true;    // whether somebody wants to see it

  std::string traceparent() const;  // with our span as the parent of what follows
};

// The caller's place, span_id left empty; none for a header that is not one.
std::optional<TraceContext> parse_traceparent(std::string_view header);

// The context of a request whose headers are these. The numbers are random: `span` becomes the server's span's id, and
// the other two the trace's where it begins here.
TraceContext continue_trace(std::string_view traceparent, std::string_view tracestate, std::uint64_t span,
                            std::uint64_t trace_high, std::uint64_t trace_low);

}  // namespace espalier::net
