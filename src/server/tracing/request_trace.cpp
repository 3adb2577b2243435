#include "server/tracing/request_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "server/delivery/json_writer.h"

namespace espalier::server {
namespace {

constexpr int kServerSpan = 2, kInternalSpan = 1, kErrorStatus = 2;
constexpr std::size_t kMostCalls = 128;  // that have spans of their own
using SystemTime = std::chrono::system_clock::time_point;

std::string nanoseconds(SystemTime time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

SystemTime later(SystemTime time, double seconds) {
  return time + std::chrono::duration_cast<SystemTime::duration>(std::chrono::duration<double>(seconds));
}

// Ids of children follow from their parent's: no two spans of a request have the same.
std::string child_id(const std::string& parent, int number) {
  std::uint64_t id = 0;
  std::from_chars(parent.data(), parent.data() + parent.size(), id, 16);
  id = (id + static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15ull;
  return fmt::format("{:016x}", id == 0 ? 1 : id);
}

class AttributeWriter {
 public:
  explicit AttributeWriter(JsonWriter& json) : json_(json) { json_.key("attributes").open('['); }
  ~AttributeWriter() { json_.close(']'); }
  AttributeWriter(const AttributeWriter&) = delete;
  AttributeWriter& operator=(const AttributeWriter&) = delete;

  void text(std::string_view name, std::string_view value) {
    if (!value.empty()) begin(name).field("stringValue", value).close('}').close('}');
  }
  void number(std::string_view name, std::int64_t value) {  // 64 bits are text in this protocol
    begin(name).field("intValue", std::to_string(value)).close('}').close('}');
  }
  void one_of_a_list(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    begin(name).key("arrayValue").open('{').key("values").open('[').open('{').field("stringValue", value);
    json_.close('}').close(']').close('}').close('}').close('}');
  }

 private:
  JsonWriter& begin(std::string_view name) { return json_.open('{').field("key", name).key("value").open('{'); }
  JsonWriter& json_;
};

void begin_span(JsonWriter& json, const RequestTrace& trace, std::string_view span, std::string_view parent,
                std::string_view name, int kind, SystemTime from, SystemTime to) {
  json.open('{').field("traceId", trace.context.trace_id).field("spanId", span);
  if (!parent.empty()) json.field("parentSpanId", parent);
  json.field("name", name).field("kind", kind);
  json.field("startTimeUnixNano", nanoseconds(from)).field("endTimeUnixNano", nanoseconds(std::max(from, to)));
}

void write_server_span(JsonWriter& json, const RequestTrace& trace) {
  const ReplySummary& told = trace.summary;
  begin_span(json, trace, trace.context.span_id, trace.context.parent_id,
             fmt::format("{} {}", trace.operation, trace.model), kServerSpan, trace.received, trace.ended);
  if (!trace.context.state.empty()) json.field("traceState", trace.context.state);
  {
    AttributeWriter attributes(json);
    attributes.text("gen_ai.operation.name", trace.operation);
    attributes.text("gen_ai.provider.name", "espalier");
    attributes.text("gen_ai.request.model", trace.model);
    attributes.text("gen_ai.response.model", trace.model);
    attributes.text("gen_ai.response.id", trace.id);
    attributes.number("gen_ai.usage.input_tokens", told.prompt_tokens);
    attributes.number("gen_ai.usage.cache_read.input_tokens", told.cached_tokens);
    attributes.number("gen_ai.usage.output_tokens", told.completion_tokens);
    attributes.one_of_a_list("gen_ai.response.finish_reasons", trace.finish_reason);
    attributes.text("http.request.method", "POST");
    attributes.text("http.route", trace.route);
    attributes.number("http.response.status_code", trace.status);
    attributes.text("espalier.request.id", trace.id);
    attributes.text("espalier.cache.miss_reason", told.cache_end);
    attributes.number("espalier.tool_calls", std::ssize(told.call_begins));
    if (trace.status >= 400)
      attributes.text("error.type", told.error_code.empty() ? std::to_string(trace.status) : told.error_code);
  }
  json.key("status").open('{');
  if (trace.status >= 500) json.field("code", kErrorStatus);
  json.close('}').close('}');
}

void write_child(JsonWriter& json, const RequestTrace& trace, int number, std::string_view name, double from, double to,
                 std::initializer_list<std::pair<std::string_view, std::int64_t>> figures) {
  begin_span(json, trace, child_id(trace.context.span_id, number), trace.context.span_id, name, kInternalSpan,
             later(trace.submitted, from), later(trace.submitted, to));
  {
    AttributeWriter attributes(json);
    for (const auto& [key, value] : figures) attributes.number(key, value);
  }
  json.close('}');
}

// Each call of a tool, from where the answer begins to write it to the next one. Their names are the client's words.
void write_calls(JsonWriter& json, const RequestTrace& trace, double ended) {
  const std::vector<double>& begins = trace.summary.call_begins;
  for (std::size_t i = 0; i < std::min(begins.size(), kMostCalls); ++i) {
    const double until = i + 1 < begins.size() ? begins[i + 1] : std::max(begins[i], ended);
    write_child(json, trace, 4 + static_cast<int>(i), "tool_call", begins[i], until,
                {{"espalier.tool_call.index", static_cast<std::int64_t>(i)}});
  }
}

// As far as the request came.
void write_children(JsonWriter& json, const RequestTrace& trace) {
  const ReplySummary& told = trace.summary;
  const Timing& t = told.timing;
  if (t.finished <= 0 && t.first_token <= 0) return;
  write_child(json, trace, 1, "queue", 0, t.queued, {});
  const double first = t.first_token > 0 ? t.first_token : t.finished;
  write_child(json, trace, 2, "prefill", t.queued, first,
              {{"espalier.prefill.cached_tokens", told.cached_tokens},
               {"espalier.prefill.computed_tokens", std::max(0, told.prompt_tokens - told.cached_tokens)}});
  if (told.completion_tokens == 0) return;
  const double ended =
      t.finished > 0 ? t.finished : std::chrono::duration<double>(trace.ended - trace.submitted).count();
  write_child(json, trace, 3, "decode", first, ended, {{"espalier.decode.tokens", told.completion_tokens}});
  write_calls(json, trace, ended);
}

}  // namespace

std::string_view operation_of(std::string_view route) {
  const auto has = [&](std::string_view part) { return route.find(part) != std::string_view::npos; };
  if (has("chat") || has("/messages") || has("/responses")) return "chat";
  if (has("embed") || has("/encode") || has("rerank") || has("score") || has("classify")) return "embeddings";
  return "text_completion";
}

std::string otlp_json(const TraceConfig& config, std::span<const RequestTrace> traces) {
  std::string out;
  JsonWriter json(out);
  json.open('{').key("resourceSpans").open('[').open('{').key("resource").open('{');
  {
    AttributeWriter attributes(json);
    for (const auto& [name, value] : config.resource) attributes.text(name, value);
    attributes.text("telemetry.sdk.name", "espalier");
    attributes.text("telemetry.sdk.language", "cpp");
    attributes.text("service.version", ESPALIER_VERSION);
  }
  json.close('}').key("scopeSpans").open('[').open('{').key("scope").open('{');
  json.field("name", "espalier").field("version", ESPALIER_VERSION).close('}').key("spans").open('[');
  for (const RequestTrace& trace : traces) {
    write_server_span(json, trace);
    write_children(json, trace);
  }
  json.close(']').close('}').close(']').close('}').close(']').close('}');
  return out;
}

}  // namespace espalier::server
