#include "server/server.h"

#include <fmt/format.h>
#include <filesystem>

#include "base/json/json.h"
#include "base/log.h"
#include "server/admission/gate.h"
#include "server/attach_model.h"
#include "server/cache_events/cache_event_config.h"
#include "server/delivery/delivery.h"
#include "server/metrics/request_log.h"
#include "server/responses/create_response.h"
#include "server/routes/routes.h"
#include "text/answer/call_format.h"
#include "text/answer/thinking_format.h"

namespace espalier::server {
namespace {

Error option_error(std::string_view flag, std::string_view wanted) {
  return bad_request(fmt::format("--{} must be {}", flag, wanted), std::string(flag));
}

// What visit() cannot know: the range of each number.
struct RangeCheck {
  Result<>& verdict;

  void operator()(int value, const char* flag, const char*, const char*) const {
    const std::string_view name = flag;
    const bool may_be_off = name == "max-connections-per-address" || name == "max-reasoning-tokens";
    const bool may_be_none = name == "port" || name == "max-loaded-models" || name.find("-lora") != name.npos;
    const int low = may_be_none ? 0 : may_be_off ? -1 : 1;
    const int high = name == "port" ? 65535 : name == "max-body" ? 4096 : name.ends_with("threads") ? 64 : 1'000'000;
    if (value < low || value > high) verdict = option_error(flag, fmt::format("{} to {}", low, high));
  }
  void operator()(double value, const char* flag, const char*, const char*) const {
    if (!(value >= 0 && value <= 1e6)) verdict = option_error(flag, "0 to 1000000 seconds");
  }
  template <class V>
  void operator()(const V&, const char*, const char*, const char*) const {}
};

}  // namespace

Result<> check(const ServerOptions& options) {
  Result<> verdict = success();
  ServerOptions::visit(options, RangeCheck{verdict});
  ESP_CHECK(verdict);
  if (options.max_logprob_entries < 1) return option_error("max-logprob-entries", "at least 1");
  if (options.sampling_defaults != "model" && options.sampling_defaults != "openai") {
    return option_error("sampling-defaults", "model or openai");
  }
  const std::string& compat = options.metrics_compat;
  if (compat != "sglang" && compat != "vllm" && compat != "none")
    return option_error("metrics-compat", "sglang, vllm or none");
  if (options.special_tokens_in_text != "special" && options.special_tokens_in_text != "text") {
    return option_error("special-tokens-in-text", "special or text");
  }
  const std::string& contents = options.chat_template_content_format;
  if (contents != "auto" && contents != "string" && contents != "openai")
    return option_error("chat-template-content-format", "auto, string or openai");
  const auto named = [](const std::string& name) { return !name.empty() && name != "auto" && name != "none"; };
  if (named(options.reasoning_parser) && !thinking_format(options.reasoning_parser, "").ok())
    return option_error("reasoning-parser", "auto, none or one of " + thinking_format_names());
  if (named(options.tool_call_parser) && !call_format(options.tool_call_parser, "").ok())
    return option_error("tool-call-parser", "auto, none or one of " + call_format_names());
  if (options.ssl_certfile.empty() && !options.ssl_keyfile.empty())
    return option_error("ssl-keyfile", "given together with --ssl-certfile");
  std::error_code failed;
  if (!options.media_dir.empty() && !std::filesystem::is_directory(options.media_dir, failed))
    return option_error("media-dir", "a folder");
  if (!options.lora_dir.empty() && !std::filesystem::is_directory(options.lora_dir, failed))
    return option_error("lora-dir", "a folder");
  ESP_CHECK(parse_cache_event_config(options.cache_events));
  if (options.default_chat_template_kwargs.empty()) return success();
  const auto arguments = parse_json(options.default_chat_template_kwargs);
  if (!arguments.ok() || !arguments->is_object()) return option_error("default-chat-template-kwargs", "a JSON object");
  return success();
}

namespace {

constexpr std::chrono::milliseconds kLastTraces{1000};  // what a collector gets to take them

// All that reaches a loopback bind has the same address, and so has all that comes through a proxy.
int per_address(const ServerOptions& options) {
  if (options.max_connections_per_address >= 0) return options.max_connections_per_address;
  return is_loopback(options.host) ? 0 : std::max(1, options.max_connections / 2);
}

net::ServerOptions http_options(const ServerOptions& options) {
  net::ServerOptions http;
  http.host = options.host;
  http.port = static_cast<std::uint16_t>(options.port);
  http.listen_fd = options.listen_fd;
  http.io_threads = static_cast<unsigned>(options.io_threads);
  http.parser.body_bytes = static_cast<std::uint64_t>(options.max_body_mib) << 20;
  http.max_connections = static_cast<std::size_t>(options.max_connections);
  http.max_per_address = static_cast<std::size_t>(options.max_connections_per_address);
  http.body_total_bytes = std::max<std::uint64_t>(256ull << 20, 4 * http.parser.body_bytes);
  http.cors_origins = options.cors_origins;
  http.tls = {options.ssl_certfile, options.ssl_keyfile, options.ssl_keyfile_password};
  return http;
}

net::ErrorFormatter error_shape(std::string prefix) {
  return [prefix = std::move(prefix)](const net::HttpError& error, std::string_view path) {
    return error_response(dialect_of(path, prefix), error);
  };
}

}  // namespace

struct Server::Http {
  explicit Http(const std::string& prefix) : router(prefix, error_shape(prefix)) {}
  net::Router router;
  std::unique_ptr<net::HttpServer> server;
};

Server::Server(std::unique_ptr<Http> http, std::unique_ptr<Service> service)
    : http_(std::move(http)), service_(std::move(service)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, std::vector<ModelToServe> models,
                                              ModelFetch fetch) {
  ESP_CHECK(check(options));
  options.max_connections_per_address = per_address(options);
  ESP_TRY(auto keys, KeyRing::load(options.api_keys, options.api_key_file, options.admin_api_key));
  ESP_TRY(auto service, Service::make(std::move(options), std::move(keys)));
  ESP_TRY(auto traces, TraceConfig::from_environment());
  if (traces) {
    ESP_TRY(service->tracer, Tracer::make(*std::move(traces)));
  }
  ESP_CHECK(add_models(*service, std::move(models)));
  service->fetches.allow(std::move(fetch));
  auto http = std::make_unique<Http>(service->options.api_prefix);
  ESP_CHECK(add_all_routes(http->router, *service));

  net::ServerHooks hooks;
  hooks.admit = Gate(*service, http->router);
  hooks.answer_headers = [&keys = *service->keys](const net::HttpRequest& head) {
    return Gate::answer_headers(keys, head);
  };
  if (const Tracer* tracer = service->tracer.get(); tracer != nullptr)
    hooks.sample = [tracer](const net::TraceContext& context) { return tracer->config().samples(context); };
  hooks.handle = [&router = http->router](net::HttpRequest request, net::Responder responder) {
    router.dispatch(std::move(request), std::move(responder));
  };
  hooks.error_body = error_shape(service->options.api_prefix);
  hooks.sent = [&metrics = service->metrics](std::chrono::steady_clock::duration took, std::uint32_t tokens) {
    metrics.token_delivery.observe(std::chrono::duration<double>(took).count(), tokens);
  };
  if (service->options.log_requests) {
    hooks.refused = [](std::string_view id, std::string_view path, const net::HttpError& error) {
      log_refusal({id.empty() ? "-" : id, path.empty() ? "-" : path, error.status, 0}, error.code, error.param);
    };
  }
  ESP_TRY(http->server, net::HttpServer::listen(http_options(service->options), std::move(hooks)));
  service->port = http->server->port();
  service->net_stats = [&server = *http->server] { return server.stats(); };
  if (!service->loopback() && !service->keys->wants_key()) {
    log::warning("listening on {} without an API key: everybody who reaches this machine can use the model (--api-key)",
                 service->options.host);
  }
  ESP_CHECK(http->server->start());
  return std::unique_ptr<Server>(new Server(std::move(http), std::move(service)));  // the constructor is private
}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

std::string Server::url() const {
  return http_->server->url();
}
std::uint16_t Server::port() const {
  return http_->server->port();
}

void Server::progress(std::string_view stage, double share) {
  service_->readiness.progress(stage, share);
}

Result<> Server::attach_engine(std::unique_ptr<Engine> engine, const std::string& name) {
  ESP_CHECK(attach_model(*service_, std::move(engine), name));
  go_on_with_stored_work();
  return success();
}

// What a server that ended, however it did, had taken on. A folder that nobody has work in is left to others.
void Server::go_on_with_stored_work() {
  resume_responses(*service_);
  bool batches = false, opened = false;
  if (auto data = service_->data.open_existing(); data && *data) {
    opened = true;
    const auto open = open_batches(***data, 1);
    batches = open && !open->empty();
  } else if (!data) {
    log::warning("what was stored is not gone on with: {}", data.error().message);
  }
  if (batches)
    service_->batches.wake();
  else if (opened && service_->running.empty())
    service_->data.close();
}

void Server::load_all() {
  ModelSet& models = service_->models;
  const int most = service_->options.max_loaded_models;
  for (int place = 0; place < models.count() && (most == 0 || place < most); ++place)
    if (auto asked = models.load(place); !asked.ok()) log::warning("{}", asked.error().message);
}

bool Server::loads_a_model() const {
  return service_->models.loading();
}

std::int64_t Server::save_caches(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::int64_t tokens = 0;
  for (const auto& model : service_->models.look_at_all()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    tokens += std::max<std::int64_t>(0, model->engine->save_cache(std::max(left, std::chrono::milliseconds(0))));
  }
  return tokens;
}

void Server::begin_drain() {
  // Not the engine: what runs may have calls to make yet, as programs and segments do. New work ends at the routes.
  service_->readiness.drain();
  http_->server->begin_drain();
}

std::size_t Server::active() const {
  return http_->server->stats().requests_active;
}

void Server::cut() {
  const auto end = [](Completion& completion) {
    completion.cancel(
        {Error::Kind::unavailable, "the server is shutting down and the request was cut off", {}, "draining"});
  };
  service_->light.for_each(end);
  service_->heavy.for_each(end);
  service_->storing.for_each(end);
}

void Server::stop(std::chrono::milliseconds limit) {
  http_->server->stop(limit);
  if (service_->tracer) service_->tracer->stop(kLastTraces);
}

Result<> Server::reload_keys() {
  return service_->keys->reload();
}
Result<> Server::reload_certificate() {
  return http_->server->reload_certificate();
}

bool Server::stalled() const {
  return service_->stalled_for().has_value();
}

std::string Server::describe() const {
  const auto phase = service_->readiness.phase();
  const char* name = phase == Readiness::Phase::ready     ? "ready"
                     : phase == Readiness::Phase::loading ? "loading"
                                                          : "draining";
  std::string text = fmt::format(
      "{}; {} requests being answered; {} bodies being read", name, active(),
      service_->pool.waiting() + service_->pool.running() + service_->bulk.waiting() + service_->bulk.running());
  const bool several = service_->models.count() > 1;
  for (const auto& model : service_->models.look_at_all()) {
    const EngineStatus s = model->engine->status();
    text += fmt::format(
        "; engine{}: {} running, {} waiting ({} tokens), pool {} of which {} free and {} cached, {} steps, "
        "the last {:.1f} s ago",
        several ? " of " + model->name() : "", s.running, s.waiting, s.waiting_tokens, s.pool_tokens, s.free_tokens,
        s.cached_tokens, s.steps, s.last_step_seconds_ago);
  }
  return text;
}

}  // namespace espalier::server
