// What is served and how: /v1/models, /get_model_info, /get_server_info, /version.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/engine_metrics.h"
#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// What a model that generates no text gives.
void write_purpose(JsonWriter& json, const ModelInfo& info) {
  if (!info.pooled) return;
  const bool is_embedding = info.pooled->kind == PooledInfo::Kind::embedding;
  json.field("task", is_embedding ? "embed" : "classify").field("pooling", info.pooled->pooling);
  json.field(is_embedding ? "embedding_length" : "num_labels", info.pooled->width);
  if (!info.pooled->prompts.empty()) {
    json.key("prompts").open('{');
    for (const auto& [name, text] : info.pooled->prompts) {
      json.raw(json_text(Json(name)) + ":" + json_text(Json(text)));
    }
    json.close('}');
  }
  if (!info.pooled->labels.empty()) {
    json.key("labels").open('[');
    for (const std::string& label : info.pooled->labels) json.value(label);
    json.close(']');
  }
}

// Routers take a server for what owned_by says: "sglang" is whose routes we have.
void write_card(JsonWriter& json, const Service& service, int place, const ModelEntry& entry, const std::string& name) {
  const auto model = service.models.look(place);
  const auto created = model != nullptr ? model->loaded_at : static_cast<std::int64_t>(service.started_at);
  json.open('{').field("id", name).field("object", "model").field("created", created);
  json.field("owned_by", "sglang").field("server", "espalier");
  json.field("root", model != nullptr ? model->info().path : entry.path).key("parent").null();
  if (model != nullptr) json.field("max_model_len", model->limits().context_length);
  if (model != nullptr) write_purpose(json, model->info());
  json.field("state", to_string(entry.state)).field("size_bytes", entry.bytes).close('}');
}

// As vLLM tells of adapters: `root` is where they lie, `parent` the model that they are for.
void write_adapter_card(JsonWriter& json, const Service& service, const AdapterEntry& adapter) {
  const auto model = service.models.look(adapter.place);
  json.open('{').field("id", adapter.name).field("object", "model");
  json.field("created", static_cast<std::int64_t>(service.started_at));
  json.field("owned_by", "sglang").field("server", "espalier").field("root", adapter.path);
  json.field("parent", service.models.names(adapter.place).front());
  if (model != nullptr) json.field("max_model_len", model->limits().context_length);
  json.field("state", adapter.loaded ? "loaded" : "unloaded").field("size_bytes", adapter.bytes).close('}');
}

// The folder with tokenizer.json where there is one: routers load the tokenizer from there, and know no GGUF.
std::string tokenizer_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path folder = fs::is_directory(path, failed) ? fs::path(path) : fs::path(path).parent_path();
  return fs::exists(folder / "tokenizer.json", failed) ? folder.string() : path;
}

Result<net::HttpResponse> list_models(Service& service, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("object", "list").key("data").open('[');
  const auto entries = service.models.list();
  for (std::size_t place = 0; place < entries.size(); ++place)
    for (const auto& name : entries[place].names)
      write_card(json, service, static_cast<int>(place), entries[place], name);
  for (const AdapterEntry& adapter : service.adapters.list()) write_adapter_card(json, service, adapter);
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> one_model(Service& service, const net::HttpRequest& http) {
  const std::string id(http.path_value("id"));
  if (const auto found = service.models.place_of(id).ok() ? std::nullopt : service.adapters.find_known(id))
    for (const AdapterEntry& adapter : service.adapters.list())
      if (adapter.name == found->name) {
        std::string out;
        JsonWriter json(out);
        write_adapter_card(json, service, adapter);
        return net::HttpResponse::json(200, std::move(out));
      }
  ESP_TRY(const int place, service.models.place_of(id));
  const ModelEntry entry = service.models.list()[static_cast<std::size_t>(place)];
  const bool known = std::ranges::find(entry.names, id) != entry.names.end();
  std::string out;
  JsonWriter json(out);
  write_card(json, service, place, entry, known ? id : entry.names.front());
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> model_info(Service& service, const ServedModel& model, const net::HttpRequest&) {
  const ModelInfo& info = model.info();
  std::string out;
  JsonWriter json(out);
  json.open('{').field("server", "espalier").field("model_path", info.path);
  json.field("served_model_name", model.name())
      .field("tokenizer_path", tokenizer_place(info.tokenizer_path))
      .field("is_generation", !model.limits().pools);
  json.key("preferred_sampling_params").null();
  json.field("weight_version", service.options.weight_version)
      .field("load_format", model.engine->options().load_format);
  const auto name_of = [](const auto* format) { return format == nullptr ? std::string() : std::string(format->name); };
  json.field_or_null("reasoning_parser", name_of(model.thinking_format));
  json.field_or_null("tool_call_parser", name_of(model.call_format));
  json.field("disaggregation_mode", model.engine->options().disaggregation_mode)
      .field("has_image_understanding", model.media != nullptr && model.limits().takes_pictures);
  json.field("has_audio_understanding", false).field("model_type", info.model_type);
  json.key("architectures").open('[').value(info.architecture).close(']');
  json.field("quantization", info.quantisation).field("parameters", info.parameters);
  json.field("vocab_size", info.limits.vocabulary).field("context_length", info.limits.context_length);
  json.key("eos_token_ids").values(std::span<const TokenId>(info.end_tokens)).field("bos_token_id", info.bos);
  json.field("has_chat_template", !info.chat_template.empty());
  write_purpose(json, info);
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

struct OptionWriter {
  JsonWriter& json;

  template <class V>
  void operator()(const V& value, const char* flag, const char*, const char*) const {
    std::string name(flag);
    for (char& c : name) c = c == '-' ? '_' : c;
    if (name.find("key") != std::string::npos && name != "cache_salt_from_key") return;  // keys and where they are kept
    if (name == "port" || name == "served_model_name") return;                           // as they turned out, below
    if constexpr (std::is_same_v<V, std::vector<std::string>>) {
      json.key(name).open('[');
      for (const auto& element : value) json.value(element);
      json.close(']');
    } else {
      json.field(name, value);
    }
  }
};

void write_engine_options(JsonWriter& json, const ServedModel& model) {
  const EngineOptions& options = model.engine->options();
  const ModelInfo& info = model.info();
  json.field("model_path", info.path).field("tokenizer_path", tokenizer_place(info.tokenizer_path));
  json.field("context_length", info.limits.context_length).field("max_running_requests", info.max_running);
  json.field("max_queued_requests", options.max_queued).field("chunked_prefill_size", info.prefill_chunk);
  json.field("max_queued_tokens", info.max_queued_tokens).field("max_loras_per_batch", options.max_adapters);
  json.field("schedule_policy", options.schedule_policy).field("disable_radix_cache", !options.radix_cache);
  json.field("device", info.device).field("device_name", info.device_name);
  json.field("tp_size", info.ranks / options.rank_stages).field("pp_size", options.rank_stages);
  json.field("ep_size", options.experts_by_id ? info.ranks : 1);
  json.field("ranks_talk", info.ranks_talk);
  json.field("kv_cache_dtype", info.kv_type).field("activations", info.activations).field("isa", info.isa);
  json.field("threads", info.threads).field("quantization", info.quantisation);
  json.field("schedule_conservativeness", options.conservativeness).field("random_seed", options.random_seed);
  json.field("radix_eviction_policy", options.eviction).field("cache_dir", options.cache_dir);
  json.field("cache_disk", options.cache_disk_bytes).field("cache_host", options.cache_host_bytes);
  json.field("hicache_ratio", options.cache_host_ratio).field("disk_cache", info.disk_cache);
  json.field("remote_cache", info.remote_cache).field("cache_remote_policy", options.cache_remote_policy);
  json.field("cache_remote_prefix", options.cache_remote_prefix)
      .field("cache_remote_ttl", options.cache_remote_seconds);
  json.field("disaggregation_mode", options.disaggregation_mode)
      .field("disaggregation_bootstrap_port", options.disaggregation_port)
      .field("peers", info.peers);
  json.field("packed_weights_cache", options.packed_weights_dir).field("packed_weights", info.packed_weights);
  json.field("target_itl", options.target_itl_ms).field("fair_tenants", options.fair_tenants);
  json.field("speculative_algorithm", options.speculative).field("speculative_draft_model_path", options.draft_model);
  json.field("max_mamba_cache_size", info.state_cells).field("state_bytes", info.state_bytes);
  json.field("swa_full_tokens_ratio", options.window_ratio).field("window_tokens", info.window_tokens);
  json.field("max_total_num_tokens", info.limits.pool_tokens).field("max_total_tokens", info.limits.pool_tokens);
}

void write_peers(JsonWriter& json, const PeerCounters& peers) {
  json.key("peers").open('{').field("given_tokens", peers.given_tokens.value());
  json.field("rooms", peers.rooms.value()).field("rooms_failed", peers.rooms_failed.value());
  json.field("pulled_tokens", peers.pulled_tokens.value()).close('}');
}

void write_remote(JsonWriter& json, const RemoteTierCounters& remote) {
  constexpr std::string_view kStates[] = {"down", "up", "full"};
  json.key("remote_cache").open('{').field("state", kStates[static_cast<std::size_t>(remote.state.value())]);
  json.field("hits", remote.hits.value()).field("misses", remote.misses.value()).field("errors", remote.errors.value());
  json.field("read_tokens", remote.read_tokens.value()).field("written_tokens", remote.written_tokens.value());
  json.field("waiting_tokens", static_cast<std::int64_t>(remote.waiting_tokens.value()));
  json.field("read_bytes_per_second", remote.read_bytes_per_second.value()).close('}');
}

void write_state(JsonWriter& json, const ServedModel& model) {
  const EngineStatus status = model.engine->status();
  json.open('{').field("model_name", model.name()).field("last_gen_throughput", status.tokens_per_second);
  json.field("num_running_reqs", status.running).field("num_waiting_reqs", status.waiting);
  json.field("waiting_tokens", status.waiting_tokens).field("pool_tokens", status.pool_tokens);
  json.field("free_tokens", status.free_tokens).field("cached_tokens", status.cached_tokens);
  json.field("state_cells", status.state_cells).field("free_state_cells", status.free_state_cells);
  json.field("state_snapshots", status.snapshots);
  json.field("window_tokens", status.window_tokens).field("free_window_tokens", status.free_window_tokens);
  json.field("new_token_ratio", status.new_token_ratio).field("steps", status.steps);
  const EngineMetrics& metrics = model.engine->metrics();
  if (const auto steps = static_cast<double>(metrics.draft_steps.value()); steps > 0)
    json.field("avg_spec_accept_length", 1 + static_cast<double>(metrics.accepted_tokens.value()) / steps);
  json.key("memory_usage").open('{').field("weight", static_cast<double>(model.info().weight_bytes) / 1e9);
  json.field("kvcache", static_cast<double>(model.info().kv_bytes) / 1e9);
  json.field("states", static_cast<double>(model.info().state_bytes) * model.info().state_cells / 1e9);
  json.field("token_capacity", status.pool_tokens).close('}');
  if (!model.info().remote_cache.empty()) write_remote(json, metrics.remote);
  if (!model.info().peers.empty()) write_peers(json, metrics.peers);
  json.close('}');
}

// What /v1/models and /api/ps tell of each, too.
void write_models(JsonWriter& json, const std::vector<ModelEntry>& entries) {
  json.key("models").open('[');
  for (const ModelEntry& entry : entries) {
    json.open('{').field("model_name", entry.names.front()).field("model_path", entry.path);
    json.field("state", to_string(entry.state)).field("size_bytes", entry.bytes);
    json.field("in_use", entry.in_use).field("waiting", static_cast<std::int64_t>(entry.waiting));
    json.field("loads", static_cast<std::int64_t>(entry.loads)).field("load_seconds", entry.load_seconds);
    json.key("expires_in");
    if (entry.expires_in)
      json.value(*entry.expires_in);
    else
      json.null();
    json.field("may_be_unloaded", entry.may_leave);
    if (!entry.failure.empty()) json.field("failure", entry.failure);
    json.close('}');
  }
  json.close(']');
}

// The default model first, if it is in memory.
Result<net::HttpResponse> server_info(Service& service, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  const auto entries = service.models.list();
  const auto loaded = service.models.look_at_all();
  json.open('{');
  ServerOptions::visit(service.options, OptionWriter{json});
  json.field("port", service.port).field("served_model_name", entries.front().names.front());
  json.key("served_model_names").open('[');
  for (const auto& entry : entries)
    for (const auto& name : entry.names) json.value(name);
  json.close(']');
  if (!loaded.empty()) write_engine_options(json, *loaded.front());
  json.key("internal_states").open('[');
  for (const auto& model : loaded) write_state(json, *model);
  json.close(']');
  write_models(json, entries);
  json.key("adapters").open('[');
  for (const AdapterEntry& a : service.adapters.list()) {
    json.open('{').field("lora_name", a.name).field("lora_path", a.path).field("pinned", a.pinned);
    json.field("loaded", a.loaded).field("in_use", a.in_use).field("size_bytes", a.bytes).field("rank", a.rank);
    json.field("uses", static_cast<std::int64_t>(a.uses)).close('}');
  }
  json.close(']');
  json.field("version", ESPALIER_VERSION).field("startup_time", service.started_at).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_info_routes(net::Router& router, Service& service) {
  using net::Method;
  for (const char* path : {"/v1/models", "/models"})
    ESP_CHECK(router.add(Method::get, path, telling(service, Dialect::openai, list_models)));
  ESP_CHECK(router.add(Method::get, "/v1/models/{id}", telling(service, Dialect::openai, one_model)));
  for (const char* path : {"/get_model_info", "/model_info"}) {
    ESP_CHECK(router.add(Method::get, path, informing(service, Dialect::native, model_info)));
  }
  for (const char* path : {"/get_server_info", "/server_info"}) {
    ESP_CHECK(router.add(Method::get, path, telling(service, Dialect::native, server_info)));
  }
  return router.add(Method::get, "/version", [&service](net::HttpRequest http, net::Responder responder) {
    respond(service, http, responder, net::HttpResponse::json(200, "{\"version\":\"" ESPALIER_VERSION "\"}"));
  });
}

}  // namespace espalier::server
