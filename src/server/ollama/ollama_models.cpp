// What Ollama's clients ask of models: /api/tags, /api/show, /api/ps, /api/version; changing them is refused.
#include <fmt/format.h>

#include <filesystem>

#include "server/admission/keys.h"
#include "server/ollama/ollama_body.h"
#include "server/ollama/ollama_reply.h"
#include "server/prompt/infill.h"
#include "server/prompt/sampling_defaults.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

// The release of Ollama whose API these routes follow: clients compare it with the oldest that they work with.
constexpr const char* kApiVersion = "0.13.5";

// Clients expect a name with a tag.
std::string tagged(const std::string& name) {
  const std::size_t from = name.rfind('/') == name.npos ? 0 : name.rfind('/');
  return name.find(':', from) == name.npos ? name + ":latest" : name;
}

// 64 hexadecimal digits that are the same for the same model, as a manifest's digest is.
std::string digest_of(const ModelEntry& entry) {
  return hex_digest(fmt::format("{}|{}|{}", entry.names.front(), entry.path, entry.bytes));
}

std::string modified_at(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const auto written = fs::last_write_time(path, failed);
  if (failed) return ollama_time(std::chrono::system_clock::now());
  return ollama_time(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(written)));
}

std::string parameter_size(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return parameters >= 1'000'000'000 ? fmt::format("{:.1f}B", count / 1e9) : fmt::format("{:.2f}M", count / 1e6);
}

void write_details(JsonWriter& json, const ModelInfo& info, const std::string& parent = {}) {
  json.key("details").open('{').field("parent_model", parent);
  json.field("format", info.path.ends_with(".gguf") ? "gguf" : "safetensors").field("family", info.model_type);
  json.key("families").open('[').value(info.model_type).close(']');
  json.field("parameter_size", parameter_size(info.parameters)).field("quantization_level", info.quantisation);
  json.close('}');
}

// Of a model that is not in memory only the file is known.
void write_model(JsonWriter& json, const ModelEntry& entry, const ServedModel* model, const std::string& name) {
  json.field("name", tagged(name)).field("model", tagged(name));
  json.field("modified_at", modified_at(model != nullptr ? model->info().path : entry.path));
  json.field("size", entry.bytes).field("digest", digest_of(entry));
  if (model != nullptr) return write_details(json, model->info());
  ModelInfo info;
  info.path = entry.path;
  write_details(json, info);
}

// An adapter is a model whose parent is the one that it changes.
void write_adapter(JsonWriter& json, const AdapterEntry& adapter, const ModelEntry& of, const ServedModel* model) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path path(adapter.path);
  const auto bytes = fs::file_size(fs::is_directory(path, failed) ? path / "adapter_model.safetensors" : path, failed);
  const std::int64_t size = failed ? 0 : static_cast<std::int64_t>(bytes);
  json.field("name", tagged(adapter.name)).field("model", tagged(adapter.name));
  json.field("modified_at", modified_at(adapter.path)).field("size", size);
  json.field("digest", hex_digest(fmt::format("{}|{}|{}", adapter.name, adapter.path, size)));
  ModelInfo info;
  if (model != nullptr) info = model->info();
  info.path = adapter.path;
  write_details(json, info, tagged(of.names.front()));
}

Result<net::HttpResponse> tags(Service& service, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  json.open('{').key("models").open('[');
  const std::vector<ModelEntry> entries = service.models.list();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto model = service.models.look(static_cast<int>(i));
    for (const std::string& name : entries[i].names) {
      json.open('{');
      write_model(json, entries[i], model.get(), name);
      json.close('}');
    }
  }
  for (const AdapterEntry& adapter : service.adapters.list()) {
    json.open('{');
    write_adapter(json, adapter, entries[static_cast<std::size_t>(adapter.place)],
                  service.models.look(adapter.place).get());
    json.close('}');
  }
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

// Those in memory, and until when they stay.
Result<net::HttpResponse> running_models(Service& service, const net::HttpRequest&) {
  using namespace std::chrono;
  constexpr double kForever = 24.0 * 3600 * 365 * 100;  // a model that nothing makes leave
  std::string out;
  JsonWriter json(out);
  json.open('{').key("models").open('[');
  const std::vector<ModelEntry> entries = service.models.list();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto model = service.models.look(static_cast<int>(i));
    if (model == nullptr) continue;
    const duration<double> stays(entries[i].expires_in.value_or(kForever));
    json.open('{');
    write_model(json, entries[i], model.get(), entries[i].names.front());
    json.field("expires_at", ollama_time(system_clock::now() + duration_cast<system_clock::duration>(stays)));
    json.field("size_vram", 0).field("context_length", model->info().limits.context_length).close('}');
  }
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

// One "name value" a line, as a Modelfile has them.
std::string parameters_text(const ModelInfo& info, const ServerOptions& options) {
  const SamplingParams given = chat_defaults(info, options);
  const SamplingParams usual;
  std::string out;
  const auto line = [&](const char* name, auto value, auto left) {
    if (value != left) out += fmt::format("{}{:<30} {}", out.empty() ? "" : "\n", name, value);
  };
  line("temperature", given.temperature, usual.temperature);
  line("top_k", given.top_k, usual.top_k);
  line("top_p", given.top_p, usual.top_p);
  line("min_p", given.min_p, usual.min_p);
  line("repeat_penalty", given.repetition_penalty, usual.repetition_penalty);
  return out;
}

void write_capabilities(JsonWriter& json, const ServedModel& model, const ChatTemplate* chat_template) {
  if (model.limits().pools) {
    const bool is_embedding = model.info().pooled->kind == PooledInfo::Kind::embedding;
    json.key("capabilities").open('[').value(is_embedding ? "embedding" : "rerank").close(']');
    return;
  }
  json.key("capabilities").open('[').value("completion");
  if (model.media != nullptr) json.value("vision");
  if (chat_template != nullptr && chat_template->mentions("tools")) json.value("tools");
  if (model.thinking_format != nullptr) json.value("thinking");
  if (model.tokenizer() != nullptr && infill_marks(*model.tokenizer())) json.value("insert");
  json.close(']');
}

void write_model_info(JsonWriter& json, const ServedModel& model) {
  const ModelInfo& info = model.info();
  json.key("model_info").open('{').field("general.architecture", info.model_type);
  json.field("general.basename", model.name()).field("general.parameter_count", info.parameters);
  json.field(info.model_type + ".context_length", info.limits.context_length);
  json.field(info.model_type + ".vocab_size", info.limits.vocabulary);
  if (info.pooled) json.field(info.model_type + ".embedding_length", info.pooled->width);
  if (info.bos >= 0) json.field("tokenizer.ggml.bos_token_id", info.bos);
  if (!info.end_tokens.empty()) json.field("tokenizer.ggml.eos_token_id", info.end_tokens.front());
  json.close('}');
}

Result<net::HttpResponse> show(Call& call) {
  ESP_TRY(const std::string name, read_ollama_model(call.body));
  const ServedModel& model = *call.model;
  ESP_CHECK(model.check_name(name));
  const auto found = model.need_template("");
  const ChatTemplate* chat_template = found.ok() ? *found : nullptr;
  std::string out;
  JsonWriter json(out);
  json.open('{').field("modelfile", "FROM " + model.info().path + "\n");
  json.field("parameters", parameters_text(model.info(), call.service.options));
  json.field("template", chat_template == nullptr ? std::string() : chat_template->source());
  write_details(json, model.info());
  write_model_info(json, model);
  if (model.media != nullptr)  // by this clients tell models that see
    json.key("projector_info")
        .open('{')
        .field("general.architecture", "clip")
        .field("clip.has_vision_encoder", true)
        .close('}');
  write_capabilities(json, model, chat_template);
  json.field("modified_at", modified_at(model.info().path)).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> refuse_change(Call&) {
  return bad_request(
      "models are not changed over HTTP; the files are yours: `espalier pull`, `espalier list` and `espalier serve`",
      {}, "unsupported_parameter");
}

void tell_version(Service& service, const net::HttpRequest& http, net::Responder& responder) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("version", kApiVersion).field("espalier", ESPALIER_VERSION).close('}');
  respond(service, http, responder, net::HttpResponse::json(200, std::move(out)));
}

}  // namespace

Result<> add_ollama_model_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::ollama;
  ESP_CHECK(router.add(Method::get, "/api/tags", telling(service, dialect, tags)));
  ESP_CHECK(router.add(Method::get, "/api/ps", telling(service, dialect, running_models)));
  ESP_CHECK(router.add(Method::post, "/api/show", answering(service, dialect, show)));
  ESP_CHECK(router.add(Method::get, "/api/version", [&service](net::HttpRequest http, net::Responder responder) {
    tell_version(service, http, responder);
  }));
  ESP_CHECK(router.add(Method::del, "/api/delete", answering_any(service, dialect, refuse_change)));
  for (const char* path : {"/api/create", "/api/copy", "/api/push", "/api/blobs/{digest}"})
    ESP_CHECK(router.add(Method::post, path, answering_any(service, dialect, refuse_change)));
  return add_pull_routes(router, service);
}

}  // namespace espalier::server
