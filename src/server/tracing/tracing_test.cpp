// Which traces are kept by which variables, and what a collector is sent.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/json/json.h"
#include "server/tracing/request_trace.h"
#include "server/tracing/trace_config.h"

namespace espalier::server {
namespace tracing_test {

using Variables = std::map<std::string, std::string>;

Result<std::optional<TraceConfig>> config_of(const Variables& variables) {
  return TraceConfig::read([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(TraceConfig, OffWithoutAnEndpointOrWhenToldSo) {
  EXPECT_FALSE(config_of({})->has_value());
  const std::string at = "http://collector:4318";
  EXPECT_FALSE(config_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", at}, {"OTEL_SDK_DISABLED", "true"}})->has_value());
  EXPECT_FALSE(config_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", at}, {"OTEL_TRACES_EXPORTER", "none"}})->has_value());
  EXPECT_EQ((*config_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", at + "/"}}))->url, at + "/v1/traces");
  EXPECT_EQ((*config_of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", at + "/x"}}))->url, at + "/x") << "as it is";
}

TEST(TraceConfig, HeadersAndResourceAreReadAsListsOfPairs) {
  const auto config = config_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"},
                                 {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = 2"},
                                 {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"},
                                 {"OTEL_SERVICE_NAME", "mine"},
                                 {"OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=a"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ((*config)->headers.get("api-key"), "a b");
  EXPECT_EQ((*config)->headers.get("x"), "2");
  EXPECT_EQ((*config)->timeout, std::chrono::milliseconds(1500));
  const std::map<std::string, std::string> resource((*config)->resource.begin(), (*config)->resource.end());
  EXPECT_EQ(resource, (std::map<std::string, std::string>{{"service.name", "mine"}, {"zone", "a"}}));
}

TEST(TraceConfig, WrongVariablesAreNamed) {
  for (const auto& [name, value] : Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector"},
                                             {"OTEL_EXPORTER_OTLP_HEADERS", "nothing"},
                                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                                             {"OTEL_RESOURCE_ATTRIBUTES", "=a"},
                                             {"OTEL_TRACES_SAMPLER", "sometimes"}}) {
    Variables variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"}};
    variables[name] = value;
    const auto config = config_of(variables);
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_EQ(config.error().field, name);
  }
}

TEST(TraceConfig, TheSamplerKeepsItsShareAndHeedsTheCaller) {
  const auto with = [](const char* sampler, const char* argument) {
    return **config_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"},
                        {"OTEL_TRACES_SAMPLER", sampler},
                        {"OTEL_TRACES_SAMPLER_ARG", argument}});
  };
  net::TraceContext asked = net::continue_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", 1, 2, 3);
  net::TraceContext unasked = asked;
  unasked.sampled = false;
  EXPECT_TRUE(with("", "").samples(asked));
  EXPECT_FALSE(with("", "").samples(unasked));
  EXPECT_TRUE(with("always_on", "").samples(unasked));
  EXPECT_FALSE(with("always_off", "").samples(asked));
  EXPECT_TRUE(with("parentbased_always_off", "").samples(asked));
  int kept = 0;
  const TraceConfig tenth = with("parentbased_traceidratio", "0.1");
  std::uint64_t x = 1;
  for (int i = 0; i < 10'000; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    kept += tenth.samples(net::continue_trace("", "", 1, 2, x)) ? 1 : 0;
  }
  EXPECT_NEAR(kept, 1000, 150);
}

TEST(RequestTrace, SpansFollowOneAnotherUnderOneParent) {
  RequestTrace trace;
  trace.context = net::continue_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "v=1", 5, 0, 0);
  trace.id = "req", trace.route = "/v1/chat/completions", trace.model = "m",
  trace.operation = operation_of(trace.route);
  trace.finish_reason = "stop";
  trace.summary.prompt_tokens = 10, trace.summary.cached_tokens = 4, trace.summary.completion_tokens = 3;
  trace.summary.timing = {0.25, 0.5, 1};
  trace.summary.cache_end = "diverged";
  trace.summary.call_begins = {0.6, 0.7};
  trace.received = std::chrono::system_clock::time_point(std::chrono::seconds(1000));
  trace.submitted = trace.received + std::chrono::milliseconds(10);
  trace.ended = trace.received + std::chrono::milliseconds(1010);
  TraceConfig config;
  config.resource = {{"service.name", "s"}};
  const auto json = parse_json(otlp_json(config, std::span(&trace, 1)));
  ASSERT_TRUE(json.ok()) << json.error().message;
  const Json& spans = (*json)["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[0]["name"], "chat m");
  EXPECT_EQ(spans[0]["parentSpanId"], "b7ad6b7169203331");
  std::set<std::string> ids;
  for (const Json& span : spans) {
    EXPECT_EQ(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    ids.insert(span["spanId"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 6u);
  const char* const names[] = {"queue", "prefill", "decode"};
  std::string before = "1000010000000";
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& child = spans[i + 1];
    EXPECT_EQ(child["name"], names[i]);
    EXPECT_EQ(child["parentSpanId"], spans[0]["spanId"]);
    EXPECT_EQ(child["startTimeUnixNano"], before);
    before = child["endTimeUnixNano"].get<std::string>();
  }
  EXPECT_EQ(before, "1001010000000");
  EXPECT_EQ(spans[4]["name"], "tool_call");
  EXPECT_EQ(spans[4]["startTimeUnixNano"], "1000610000000");
  EXPECT_EQ(spans[4]["endTimeUnixNano"], spans[5]["startTimeUnixNano"]);
  EXPECT_EQ(spans[5]["endTimeUnixNano"], "1001010000000");
}

}  // namespace tracing_test
}  // namespace espalier::server
