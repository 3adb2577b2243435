#include "bench/serving/target_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "net/client/url.h"

namespace espalier::bench {

void add_credential_flags(CLI::App& app, TargetOptions& o) {
  app.add_option("--api-key", o.api_key,
                 "sent as Authorization: Bearer; default of --backend openai: the environment's OPENAI_API_KEY");
  app.add_option("--header", o.headers, "\"Name: value\" with every request; may be given again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--ready-check-timeout-sec", o.ready_timeout_s,
                 "how long to wait for a server that does not answer yet")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

void add_target_flags(CLI::App& app, TargetOptions& o) {
  app.add_option("--backend", o.backend, fmt::format("kind of server: {}", fmt::join(backend_names(), ", ")))
      ->capture_default_str();
  app.add_option("--base-url", o.base_url, "address of the server, instead of --host and --port");
  app.add_option("--host", o.host, "")->capture_default_str();
  app.add_option("--port", o.port, "default: 30000, of vllm and openai 8000, of llamacpp 8080, of lmdeploy 23333")
      ->check(CLI::Range(0, 65535));
  app.add_option("--endpoint", o.endpoint, "path of the requests, instead of the backend's own");
  app.add_option("--model", o.model, "name in the requests; default: the first that the server lists");
  app.add_option("--served-model-name", o.served_model_name, "the same, when --model is a path");
  add_credential_flags(app, o);
}

Result<Server> server_at(const std::string& url, const std::string& backend, const TargetOptions& o) {
  Server server;
  ESP_TRY(server.backend, find_backend(backend));
  if (auto parsed = net::parse_url(url); !parsed.ok())
    return bad_request(fmt::format("{}: {}", url, parsed.error().message), "base-url");
  server.url = url;
  server.endpoint = o.endpoint;
  while (server.url.ends_with('/')) server.url.pop_back();
  if (server.url.ends_with("/v1")) server.url.resize(server.url.size() - 3);  // as OpenAI's clients want it
  for (const std::string& header : o.headers) {
    const auto colon = header.find(':');
    if (colon == std::string::npos || !net::valid_field_name(header.substr(0, colon)))
      return bad_request("--header must be \"Name: value\"", "header");
    const auto value = header.find_first_not_of(' ', colon + 1);
    server.headers.set(header.substr(0, colon), value == std::string::npos ? "" : header.substr(value));
  }
  std::string key = o.api_key;
  if (const char* given = std::getenv("OPENAI_API_KEY"); key.empty() && given && backend.starts_with("openai"))
    key = given;
  if (!key.empty()) server.credentials.set("Authorization", "Bearer " + key);
  return server;
}

Result<Server> server_of(const TargetOptions& o) {
  ESP_TRY(const Backend* backend, find_backend(o.backend));
  const std::string url =
      o.base_url.empty() ? fmt::format("http://{}:{}", o.host, o.port > 0 ? o.port : backend->port) : o.base_url;
  return server_at(url, o.backend, o);
}

}  // namespace espalier::bench
