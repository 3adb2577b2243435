#include "server/tracing/trace_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/log.h"
#include "net/client/url.h"
#include "net/http/request_target.h"

namespace espalier::server {
namespace {

std::string_view without_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// "a=1,b=2%2C3", as W3C Baggage writes it.
Result<std::vector<std::pair<std::string, std::string>>> read_pairs(std::string_view text, const char* variable) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view pair = without_spaces(text.substr(at, end - at));
    at = end + 1;
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const std::string_view name = without_spaces(pair.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
      return bad_request(fmt::format("{} must be a list NAME=VALUE,NAME=VALUE", variable), variable);
    const std::string value(without_spaces(pair.substr(equals + 1)));
    pairs.emplace_back(std::string(name), net::percent_decode(value).value_or(value));
  }
  return pairs;
}

Result<double> number(const std::string& text, const char* variable, double low, double high) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && value >= low && value <= high) return value;
  return bad_request(fmt::format("{} must be a number from {} to {}", variable, low, high), variable);
}

using Variable = std::function<std::string(const char*)>;

Result<> read_sampler(TraceConfig& config, const Variable& variable) {
  std::string name = variable("OTEL_TRACES_SAMPLER");
  if (name.empty()) return success();
  constexpr std::string_view kParent = "parentbased_";
  config.parent_based = name.starts_with(kParent);
  if (config.parent_based) name.erase(0, kParent.size());
  if (name == "always_on") return success();
  if (name == "always_off") {
    config.ratio = 0;
    return success();
  }
  if (name != "traceidratio")
    return bad_request(
        "OTEL_TRACES_SAMPLER must be always_on, always_off, traceidratio, or parentbased_ and one of them",
        "OTEL_TRACES_SAMPLER");
  const std::string ratio = variable("OTEL_TRACES_SAMPLER_ARG");
  if (ratio.empty()) return success();
  ESP_TRY(config.ratio, number(ratio, "OTEL_TRACES_SAMPLER_ARG", 0, 1));
  return success();
}

Result<> read_resource(TraceConfig& config, const Variable& variable) {
  ESP_TRY(config.resource, read_pairs(variable("OTEL_RESOURCE_ATTRIBUTES"), "OTEL_RESOURCE_ATTRIBUTES"));
  std::string name = variable("OTEL_SERVICE_NAME");
  const auto given = std::ranges::find(config.resource, "service.name", &std::pair<std::string, std::string>::first);
  if (name.empty() && given != config.resource.end()) return success();
  if (given != config.resource.end()) config.resource.erase(given);
  config.resource.emplace_back("service.name", name.empty() ? "espalier" : std::move(name));
  return success();
}

}  // namespace

bool TraceConfig::samples(const net::TraceContext& context) const {
  if (parent_based && !context.parent_id.empty()) return context.sampled;
  if (ratio >= 1) return true;
  std::uint64_t low = 0;  // the part of an id that every maker of ids leaves random
  std::from_chars(context.trace_id.data() + 16, context.trace_id.data() + 32, low, 16);
  return static_cast<double>(low >> 11) * 0x1p-53 < ratio;
}

Result<std::optional<TraceConfig>> TraceConfig::read(const Variable& variable) {
  const auto either = [&](const char* traces, const char* all) {
    std::string value = variable(traces);
    return value.empty() ? variable(all) : value;
  };
  TraceConfig config;
  config.url = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (config.url.empty()) {
    config.url = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    while (config.url.ends_with('/')) config.url.pop_back();
    if (!config.url.empty()) config.url += "/v1/traces";
  }
  if (config.url.empty() || variable("OTEL_SDK_DISABLED") == "true" || variable("OTEL_TRACES_EXPORTER") == "none")
    return std::optional<TraceConfig>();
  if (auto url = net::parse_url(config.url); !url.ok())
    return bad_request("OTEL_EXPORTER_OTLP_ENDPOINT: " + url.error().message, "OTEL_EXPORTER_OTLP_ENDPOINT");
  ESP_TRY(const auto headers, read_pairs(either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"),
                                         "OTEL_EXPORTER_OTLP_HEADERS"));
  for (const auto& [name, value] : headers) {
    if (!net::valid_field_name(name) || !net::valid_field_value(value))
      return bad_request("OTEL_EXPORTER_OTLP_HEADERS holds what no header may", "OTEL_EXPORTER_OTLP_HEADERS");
    config.headers.set(name, value);
  }
  const std::string timeout = either("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
  if (!timeout.empty()) {
    ESP_TRY(const double ms, number(timeout, "OTEL_EXPORTER_OTLP_TIMEOUT", 1, 600'000));
    config.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(ms));
  }
  ESP_CHECK(read_sampler(config, variable));
  ESP_CHECK(read_resource(config, variable));
  return std::optional<TraceConfig>(std::move(config));
}

Result<std::optional<TraceConfig>> TraceConfig::from_environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  ESP_TRY(auto config, read(variable));
  const std::string protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL");
  if (config && !protocol.empty() && protocol != "http/json")
    log::warning("OTEL_EXPORTER_OTLP_PROTOCOL is {}, but traces are sent as http/json, to the port for OTLP over HTTP",
                 protocol);
  return config;
}

}  // namespace espalier::server
