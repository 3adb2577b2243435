#include "net/http/trace_context.h"

#include <fmt/format.h>

namespace espalier::net {
namespace {

constexpr std::size_t kTraceDigits = 32, kSpanDigits = 16, kMostStateBytes = 512;

bool hexadecimal(std::string_view digits) {
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_id(std::string_view digits) {  // all zeros mean none
  return hexadecimal(digits) && digits.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::string TraceContext::traceparent() const {
  return fmt::format("00-{}-{}-{}", trace_id, span_id, sampled ? "01" : "00");
}

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  constexpr std::size_t kLength = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + 2;
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const std::string_view version = header.substr(0, 2), flags = header.substr(53, 2);
  // A later version may have more behind another '-'; this one ends here.
  if (!hexadecimal(version) || version == "ff" || !hexadecimal(flags)) return std::nullopt;
  if (header.size() > kLength && (version == "00" || header[kLength] != '-')) return std::nullopt;
  TraceContext context;
  context.trace_id = header.substr(3, kTraceDigits);
  context.parent_id = header.substr(36, kSpanDigits);
  if (!is_id(context.trace_id) || !is_id(context.parent_id)) return std::nullopt;
  const char last = flags[1];
  context.sampled = ((last <= '9' ? last - '0' : last - 'a' + 10) & 1) != 0;
  return context;
}

TraceContext continue_trace(std::string_view traceparent, std::string_view tracestate, std::uint64_t span,
                            std::uint64_t trace_high, std::uint64_t trace_low) {
  auto context = parse_traceparent(traceparent);
  if (context) {
    if (tracestate.size() <= kMostStateBytes) context->state = tracestate;
  } else {
    context.emplace();
    context->trace_id = fmt::format("{:016x}{:016x}", trace_high, trace_low | 1);
  }
  context->span_id = fmt::format("{:016x}", span | 1);
  return *std::move(context);
}

}  // namespace espalier::net
